"""`sweeper show`: everything on record about one trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import cell, columns_from, columns_of, print_columns, print_facts
from sweeper.cli.output import name_next, print_json, write
from sweeper.records import Ledger
from sweeper.report.columns import ATTEMPTS, SECONDS, Table
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
    "best_path",
    "evidence_path",
)
_PHASES = ("loading", "training", "evaluating", "checkpointing", "saving")
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
        print_facts(_attempt_facts(attempt, found))
        for note in found.notes:
            if note.attempt == attempt["attempt"]:
                print_facts({"note": note.text})
    _print_ledger(found.ledger)
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


def _attempt_facts(attempt: Mapping[str, object], found: History) -> dict[str, str]:
    """Returns where it was, what it cost, what it ran on, and the evidence of its end."""
    folder = AttemptFolder(found.folder / str(attempt["folder"]))
    table = Table(rows=[attempt], columns=ATTEMPTS).only(_ATTEMPT_FACTS)
    facts = {"folder": str(folder.path), "log": str(folder.stderr)} | _beginning(attempt)
    facts |= _known(table) | _checkpoints(attempt, found) | _seconds(attempt)
    environment, evidence = _mapping(attempt["environment"]), _mapping(attempt["evidence"])
    if environment:
        facts["environment"] = ", ".join(f"{key} {entry}" for key, entry in environment.items())
    return facts | {
        name: str(fact).rstrip() for name, fact in evidence.items() if name not in facts
    }


def _beginning(attempt: Mapping[str, object]) -> dict[str, str]:
    """Returns which window it began after, once that is known, and what had changed by then."""
    window, changed = attempt["resumed_after_window"], attempt["resume_differences"]
    if window is None:
        return {}
    if attempt["resumed_from_attempt"] is None:
        return {"began": "with the first window"}
    facts = {"began": f"after window {window} of attempt {attempt['resumed_from_attempt']}"}
    if isinstance(changed, list) and changed:
        facts["changed since"] = "; ".join(map(str, changed))
    return facts


def _checkpoints(attempt: Mapping[str, object], found: History) -> dict[str, str]:
    made = [each for each in found.checkpoints if each.attempt == attempt["attempt"]]
    if not made:
        return {}
    newest = found.folder / made[-1].path
    return {"checkpoints": f"{len(made)}, the newest after window {made[-1].window}: {newest}"}


def _seconds(attempt: Mapping[str, object]) -> dict[str, str]:
    known = {phase: attempt[f"{phase}_seconds"] for phase in _PHASES}
    told = [f"{phase} {cell(s, SECONDS)}" for phase, s in known.items() if s is not None]
    return {"seconds by phase": ", ".join(told)} if told else {}


def _print_ledger(ledger: Ledger | None) -> None:
    """Prints what was planned beside what was read and applied."""
    if ledger is None:
        return
    write("\nLedger", style="bold")
    rows = [
        {"": name, "planned": ledger.planned.get(name), "realized": ledger.realized.get(name)}
        for name in dict.fromkeys((*ledger.planned, *ledger.realized))
    ]
    print_columns(columns_from(rows))
    if ledger.difference is not None:
        write(ledger.difference)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _print_part(title: str, table: Table) -> None:
    if table.rows:
        write(f"\n{title}", style="bold")
        print_columns(columns_of(table))
