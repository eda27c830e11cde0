"""Everything on record about one trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.records import Notice, Stop
from sweeper.report.columns import EVALUATIONS, UPDATES, Table, trial_columns
from sweeper.report.recorded import check_trial, reading, run_folder
from sweeper.store.reading import AttemptEvent, Row

_JSON_COLUMNS = ("adapted_modules", "configuration", "environment", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A remark or a stop of one attempt, as a sentence."""

    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One trial: its row, every attempt, what it remarked, its evaluations and windows.

    Attributes:
        folder: The run folder, which paths are relative to.
        trial: A table of one row.
        attempts: The rows of the attempts, what they hold as JSON text decoded.
        evaluations: Of the latest attempt, as it made them.
        updates: Of the latest attempt, window by window.
    """

    folder: Path
    trial: Table
    attempts: Sequence[Mapping[str, object]]
    notes: Sequence[Note]
    evaluations: Table
    updates: Table

    def to_json(self) -> dict[str, object]:
        """Returns plain values; None where a number is unknown."""
        return {
            "trial": self.trial.records()[0],
            "attempts": list(self.attempts),
            "notes": [{"attempt": note.attempt, "text": note.text} for note in self.notes],
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
        rows = [row for row in store.trials() if row["trial"] == trial]
        return History(
            folder=run_folder(study).path,
            trial=Table(rows=rows, columns=columns),
            attempts=[_decoded(row) for row in store.attempts(trial)],
            notes=[note for event in store.notes(trial) if (note := _note(event)) is not None],
            evaluations=Table(rows=store.evaluations(trial), columns=EVALUATIONS),
            updates=Table(rows=store.updates(trial), columns=UPDATES),
        )


def _decoded(row: Row) -> Row:
    return row | {name: json.loads(str(row[name])) for name in _JSON_COLUMNS if row[name]}


def _note(event: AttemptEvent) -> Note | None:
    record = event.event.record
    if isinstance(record, Notice):
        return Note(attempt=event.attempt, text=record.message)
    if isinstance(record, Stop):
        text = f"stopped in window {record.window}: {record.reason}: {record.detail}"
        return Note(attempt=event.attempt, text=text)
    return None
