"""`sweeper clean`: drop checkpoints that no trial goes on from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, write
from sweeper.report.recorded import run_folder, study_to_run
from sweeper.sweep.cleaning import Superfluous, superfluous_checkpoints
from sweeper.sweep.cleaning import clean as carry_out


def clean(
    study: Study,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be dropped; drop nothing.")
    ] = False,
) -> None:
    """Drop checkpoints that no trial goes on from.

    Those of completed, stopped and failed trials; in a closed study, of all. The record, final and
    best weights stay, and evidence with the checkpoint that it names. A replay of a trial then
    starts from its beginning.
    """
    study_file, folder = study_to_run(study), run_folder(study)
    if dry_run:
        found = superfluous_checkpoints(study_file, folder)
    else:
        found = carry_out(study_file, folder, observer=Lines(sys.stderr))
    _print(found, verb="would be dropped" if dry_run else "dropped")
    if dry_run and found:
        name_next("clean", study)
    else:
        name_next("status", study)


def _print(found: Sequence[Superfluous], *, verb: str) -> None:
    if found:
        print_columns(columns_from([_row(found, t) for t in dict.fromkeys(f.trial for f in found)]))
    write(f"{_size(found)} bytes in {len(found)} checkpoints {verb}.")


def _row(found: Sequence[Superfluous], trial: str) -> dict[str, object]:
    own = [each for each in found if each.trial == trial]
    return {"trial": trial, "checkpoints": len(own), "bytes": _size(own)}


def _size(found: Sequence[Superfluous]) -> int:
    return sum(each.size_bytes for each in found)
