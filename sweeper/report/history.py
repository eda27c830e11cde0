"""Everything on record about one trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeper.records import CheckpointMade, Ledger, Notice, Stop
from sweeper.report.columns import EVALUATIONS, UPDATES, Table, trial_columns
from sweeper.report.recorded import check_trial, reading, run_folder
from sweeper.store.reading import AttemptEvent, Row

_JSON_COLUMNS = (
    "adapted_modules",
    "configuration",
    "environment",
    "evidence",
    "resume_differences",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A remark or a stop of one attempt, as a sentence."""

    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A state that one attempt saved; older ones make way for newer ones on the disk.

    Attributes:
        path: In the run folder.
    """

    attempt: int
    window: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One trial: its row, every attempt, what it remarked, its evaluations and windows.

    Attributes:
        folder: The run folder, which paths are relative to.
        trial: A table of one row.
        attempts: The rows of the attempts, what they hold as JSON text decoded.
        checkpoints: All that were made, in order.
        ledger: What the trial read and applied, and what was planned; None before it said so.
        evaluations: Each once, also where attempts made it again.
        updates: Window by window, each once.
    """

    folder: Path
    trial: Table
    attempts: Sequence[Mapping[str, object]]
    notes: Sequence[Note]
    checkpoints: Sequence[Checkpoint]
    ledger: Ledger | None
    evaluations: Table
    updates: Table

    def to_json(self) -> dict[str, object]:
        """Returns plain values; None where a number is unknown."""
        return {
            "trial": self.trial.records()[0],
            "attempts": list(self.attempts),
            "notes": [asdict(note) for note in self.notes],
            "checkpoints": [asdict(checkpoint) for checkpoint in self.checkpoints],
            "ledger": None if self.ledger is None else asdict(self.ledger),
            "evaluations": self.evaluations.records(),
            "updates": self.updates.records(),
        }


def history(study: str | Path, trial: str) -> History:
    """Returns the trial's record.

    Raises:
        NotFound: There is no such study or trial.
    """
    with reading(study) as store:
        check_trial(store, trial)
        recorded = store.study()
        columns = trial_columns(recorded.factor_key, is_text=recorded.factor_is_text)
        attempts, facts = store.attempts(trial), store.notes(trial)
        return History(
            folder=run_folder(study).path,
            trial=Table(rows=store.trials(trial), columns=columns),
            attempts=[_decoded(row) for row in attempts],
            notes=[note for fact in facts if (note := _note(fact)) is not None],
            checkpoints=_checkpoints(attempts, facts),
            ledger=_ledger(facts),
            evaluations=Table(rows=store.evaluations(trial), columns=EVALUATIONS),
            updates=Table(rows=store.updates(trial), columns=UPDATES),
        )


def _decoded(row: Row) -> Row:
    return row | {name: json.loads(str(row[name])) for name in _JSON_COLUMNS if row[name]}


def _checkpoints(attempts: Sequence[Row], facts: Sequence[AttemptEvent]) -> list[Checkpoint]:
    folders = {row["attempt"]: str(row["folder"]) for row in attempts}
    return [
        Checkpoint(
            attempt=fact.attempt,
            window=made.window,
            path=f"{folders[fact.attempt]}/{made.path}",
            size_bytes=made.size_bytes,
        )
        for fact in facts
        if isinstance(made := fact.event.record, CheckpointMade)
    ]


def _ledger(facts: Sequence[AttemptEvent]) -> Ledger | None:
    """Returns what the latest attempt said at its end."""
    found = (fact.event.record for fact in reversed(facts))
    return next((record for record in found if isinstance(record, Ledger)), None)


def _note(event: AttemptEvent) -> Note | None:
    record = event.event.record
    if isinstance(record, Notice):
        return Note(attempt=event.attempt, text=record.message)
    if isinstance(record, Stop):
        text = f"stopped in window {record.window}: {record.reason}: {record.detail}"
        return Note(attempt=event.attempt, text=text)
    return None
