"""`sweeper amend`: raise a limit for all arms, on record."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, write
from sweeper.errors import Fault, UserError
from sweeper.report.recorded import run_folder, study_to_run
from sweeper.sweep.interventions import amend_limits


def amend(
    study: Study,
    limit: Annotated[
        list[str],
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="A key of run.limits with its new value, as in wall_clock=4h; may be repeated.",
        ),
    ],
) -> None:
    """Raise limits of a study, for all arms and on record.

    Trials that such a limit had ended go on from their newest checkpoints. Nothing else that was
    agreed can be amended.
    """
    wanted = _by_name(limit)
    cells = amend_limits(study_to_run(study), run_folder(study), wanted, observer=Lines(sys.stderr))
    for name, value in wanted.items():
        write(f"run.limits.{name} is {value} from now on.")
    write(f"Trials that go on: {', '.join(cells) or 'none, for none had ended by it'}")
    name_next("run", study)


def _by_name(limits: Iterable[str]) -> Mapping[str, str]:
    """Returns the limits by name.

    Raises:
        UserError: One of them is not written as NAME=VALUE, or named twice.
    """
    pairs = [limit.partition("=") for limit in limits]
    names = [name for name, _, _ in pairs]
    if any(not name or not value for name, _, value in pairs) or len({*names}) < len(names):
        raise UserError(
            Fault(
                what="a limit is written with its name, each once",
                where="--limit",
                got=", ".join(limits),
                expected="NAME=VALUE, as in wall_clock=4h",
            )
        )
    return {name: value for name, _, value in pairs}
