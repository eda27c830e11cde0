"""The windows and evaluations of one trial as plain facts, to look for symptoms in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sweeper.records import Reason, Skip
from sweeper.report.history import History
from sweeper.study.schema import Study

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """One window of a trial.

    Attributes:
        tokens: Positions that were computed, padding included.
        loss: Nats per target token; None: not finite, or not computed.
        is_nonfinite: Whether loss or gradient norm was not finite.
    """

    window: int
    target_tokens: int
    tokens: int
    learning_rate: float | None
    loss: float | None
    gradient_norm: float | None
    is_nonfinite: bool
    clipped: bool
    ran: bool
    skip: Skip | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One evaluation of a split; None as loss: it was not finite."""

    index: int
    window: int
    updates: int
    loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is looked at.

    Attributes:
        windows: In order.
        validation: In order, the one before the first update first.
        retention: Likewise; empty without such a split.
        clip_norm: Above which gradients are scaled down; None: never.
        retention_margin: By how much the retention loss may rise, as the study has agreed.
        reason: Why the trial ended; None while it has not.
    """

    windows: Sequence[WindowFacts]
    validation: Sequence[Score] = ()
    retention: Sequence[Score] = ()
    clip_norm: float | None = None
    retention_margin: float
    reason: Reason | None = None


def case_of(found: History, study: Study) -> Case:
    """Returns what is on record of a trial.

    Args:
        study: As it was when it began.
    """
    (row,) = found.trial.rows
    reason = row["reason"]
    return Case(
        windows=[window_facts(update) for update in found.updates.rows],
        validation=list(_scores(found.evaluations.rows, "validation")),
        retention=list(_scores(found.evaluations.rows, "retention")),
        clip_norm=study.training.clip_norm,
        retention_margin=study.selection.retention_margin,
        reason=None if reason is None else Reason(str(reason)),
    )


def window_facts(row: Row) -> WindowFacts:
    """Returns a row of `sweeper_updates` as facts."""
    skip = row["skip"]
    return WindowFacts(
        window=cast("int", row["window"]),
        target_tokens=cast("int", row["target_tokens"]),
        tokens=cast("int", row["input_tokens"]) + cast("int", row["padding_tokens"]),
        learning_rate=cast("float | None", row["learning_rate"]),
        loss=cast("float | None", row["loss"]),
        gradient_norm=cast("float | None", row["gradient_norm"]),
        is_nonfinite=row["nonfinite"] is not None,
        clipped=bool(row["clipped"]),
        ran=bool(row["ran"]),
        skip=None if skip is None else Skip(str(skip)),
        seconds=cast("float", row["seconds"]),
    )


def _scores(rows: Iterable[Row], split: str) -> Iterable[Score]:
    """Returns the split's evaluations by the windows that had been read, the first one first."""
    mine = [row for row in rows if row["split"] == split]
    scores = [
        Score(
            index=cast("int", row["grid_index"]),
            window=cast("int", row["window"]),
            updates=cast("int", row["updates"]),
            loss=cast("float | None", row["loss"]),
        )
        for row in mine
    ]
    return sorted(scores, key=lambda score: score.index)
