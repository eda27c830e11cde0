"""`sweeper show`: everything on record about one trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import cell, columns_of, print_columns, print_facts
from sweeper.cli.output import name_next, print_json, write
from sweeper.report.columns import ATTEMPTS, Table
from sweeper.report.history import History, history
from sweeper.trial.folder import AttemptFolder

LAST_WINDOWS = 5

_IN_THE_HEADING = frozenset({"trial", "status", "outcome", "reason", "detail"})
_ATTEMPT_FACTS = (
    "detail",
    "host",
    "pid",
    "child_pid",
    "claimed_at",
    "ended_at",
    "exit_status",
    "wall_seconds",
    "peak_memory_bytes",
    "trainable_parameters",
    "adapter_path",
)
_EVALUATION_COLUMNS = (
    "split",
    "grid_index",
    "loss",
    "target_tokens_read",
    "updates",
    "target_tokens",
    "seconds",
)
_WINDOW_COLUMNS = (
    "window",
    "loss",
    "learning_rate",
    "target_tokens_read",
    "gradient_norm",
    "clipped",
    "ran",
    "skip",
)


def show(
    study: Study,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Arm and seed, as in double/2.")],
    as_json: AsJson = False,
) -> None:
    """Print all that is on record about one trial.

    How it ended and why, every attempt with its evidence and its log, evaluations, last windows.
    """
    found = history(study, trial)
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if found.updates.rows:
        name_next("updates", study, trial)
    else:
        name_next("trials", study)


def _print(found: History) -> None:
    row = found.trial.records()[0]
    write(_heading(row), style="bold")
    print_facts(_known(found.trial, without=_IN_THE_HEADING))
    for attempt in found.attempts:
        end = "running" if attempt["outcome"] is None else _ending(attempt)
        write(f"\nAttempt {attempt['attempt']} on {attempt['slot']}: {end}", style="bold")
        print_facts(_attempt_facts(attempt, found.folder))
        for note in found.notes:
            if note.attempt == attempt["attempt"]:
                print_facts({"note": note.text})
    last = Table(rows=found.updates.rows[-LAST_WINDOWS:], columns=found.updates.columns)
    _print_part("Evaluations", found.evaluations.only(_EVALUATION_COLUMNS))
    _print_part(f"Last {LAST_WINDOWS} windows", last.only(_WINDOW_COLUMNS))


def _heading(row: Mapping[str, object]) -> str:
    end = str(row["status"]).replace("_", " ") if row["outcome"] is None else _ending(row)
    return f"{row['trial']} {end}" + (f": {row['detail']}" if row["detail"] else "")


def _ending(row: Mapping[str, object]) -> str:
    return f"{row['outcome']} ({row['reason']})"


def _known(table: Table, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """Returns the values of a table of one row that are known."""
    return {
        column.name: cell(table.rows[0][column.name], column.unit)
        for column in table.columns
        if column.name not in without and table.rows[0][column.name] is not None
    }


def _attempt_facts(attempt: Mapping[str, object], run_folder: Path) -> dict[str, str]:
    """Returns where it was, what it cost, what it ran on, and the evidence of its end."""
    folder = AttemptFolder(run_folder / str(attempt["folder"]))
    table = Table(rows=[attempt], columns=ATTEMPTS).only(_ATTEMPT_FACTS)
    facts = {"folder": str(folder.path), "log": str(folder.stderr)} | _known(table)
    environment, evidence = _mapping(attempt["environment"]), _mapping(attempt["evidence"])
    if environment:
        facts["environment"] = ", ".join(f"{key} {entry}" for key, entry in environment.items())
    return facts | {
        name: str(fact).rstrip() for name, fact in evidence.items() if name not in facts
    }


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _print_part(title: str, table: Table) -> None:
    if table.rows:
        write(f"\n{title}", style="bold")
        print_columns(columns_of(table))
