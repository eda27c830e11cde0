"""Everything on record about one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.records import Notice, Stop
from sweeper.report.recorded import check_trial, reading
from sweeper.store.reading import AttemptEvent, Row

_EVALUATION_KEYS = (
    "split",
    "grid_index",
    "target_tokens_read",
    "updates",
    "loss",
    "target_tokens",
    "seconds",
)
_UPDATE_KEYS = (
    "window",
    "updates",
    "target_tokens",
    "target_tokens_read",
    "learning_rate",
    "loss",
    "gradient_norm",
    "clipped",
    "ran",
    "skip",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A remark or a stop of one attempt, as a sentence."""

    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One trial: its row, every attempt, what it remarked, its evaluations and windows."""

    trial: Mapping[str, object]
    attempts: Sequence[Mapping[str, object]]
    notes: Sequence[Note]
    evaluations: Sequence[Mapping[str, object]]
    updates: Sequence[Mapping[str, object]]


def history(study: str | Path, trial: str) -> History:
    """Returns the trial's record.

    Raises:
        NotFound: There is no such study or trial.
    """
    with reading(study) as store:
        check_trial(store, trial)
        return History(
            trial=next(row for row in store.trials() if row["trial"] == trial),
            attempts=store.attempts(trial),
            notes=[note for event in store.notes(trial) if (note := _note(event)) is not None],
            evaluations=[_only(row, _EVALUATION_KEYS) for row in store.evaluations(trial)],
            updates=[_only(row, _UPDATE_KEYS) for row in store.updates(trial)],
        )


def _note(event: AttemptEvent) -> Note | None:
    record = event.event.record
    if isinstance(record, Notice):
        return Note(attempt=event.attempt, text=record.message)
    if isinstance(record, Stop):
        text = f"stopped in window {record.window}: {record.reason}: {record.detail}"
        return Note(attempt=event.attempt, text=text)
    return None


def _only(row: Row, keys: Sequence[str]) -> dict[str, object]:
    return {key: row[key] for key in keys}
