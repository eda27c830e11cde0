"""The held-out losses of one trial along the way, from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from sweeper.selection.trajectory import EvaluationPoint
from sweeper.store.reading import Row


def trajectory(evaluations: Sequence[Row], updates: Sequence[Row]) -> tuple[EvaluationPoint, ...]:
    """Returns the trial's evaluations of the validation split, in order.

    Args:
        evaluations: Of all splits.
        updates: The windows of its history, whose time is the training's: evaluation, loading,
            checkpoints and windows that were read again are not in it.
    """
    retention = {row["grid_index"]: row["loss"] for row in evaluations if row["split"] != _SPLIT}
    rows = sorted(
        (row for row in evaluations if row["split"] == _SPLIT),
        key=lambda row: cast("int", row["grid_index"]),
    )
    seconds = _cumulative({cast("int", u["window"]): cast("float", u["seconds"]) for u in updates})
    return tuple(
        EvaluationPoint(
            target_tokens_read=cast("int", row["target_tokens_read"]),
            training_seconds=seconds.get(cast("int", row["window"])),
            loss=cast("float | None", row["loss"]),
            retention_loss=cast("float | None", retention.get(row["grid_index"])),
        )
        for row in rows
    )


_SPLIT = "validation"


def _cumulative(by_window: Mapping[int, float]) -> Mapping[int, float]:
    """The time up to and with each window, as far as none is left out."""
    total = {0: 0.0}
    while (window := len(total)) in by_window:
        total[window] = total[window - 1] + by_window[window]
    return total
