"""`sweeper show`: everything on record about one trial."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.output import cell, console, name_next, plain, print_json, terminal_table
from sweeper.report.history import History, history

LAST_UPDATES = 5


def show(
    study: Study,
    trial: Annotated[str, typer.Argument(help="Arm and seed, as in double/2.")],
    as_json: AsJson = False,
) -> None:
    """Print all that is on record about one trial: outcome, evidence, attempts, evaluations."""
    found = history(study, trial)
    if as_json:
        print_json(plain(found))
    else:
        _print(found)
    name_next(f"sweeper updates {study} {trial}")


def _print(found: History) -> None:
    screen = console()
    for key, value in found.trial.items():
        screen.print(f"{key:24}{cell(value)}")
    for attempt in found.attempts:
        ended = attempt["reason"] or "running"
        screen.print(f"\nAttempt {attempt['attempt']} on {attempt['slot']}: {ended}", style="bold")
        screen.print(f"folder                  {attempt['folder']}", markup=False)
        for name, value in sorted(json.loads(str(attempt["evidence"] or "{}")).items()):
            screen.print(f"{name:24}{value}", markup=False)
    for event in found.notes:
        screen.print(f"attempt {event.attempt}: {event.text}", markup=False)
    for title, rows in (
        ("Evaluations", found.evaluations),
        (f"Last {LAST_UPDATES} windows", found.updates[-LAST_UPDATES:]),
    ):
        if rows:
            screen.print(f"\n{title}", style="bold")
            screen.print(terminal_table(rows, list(rows[0])))
