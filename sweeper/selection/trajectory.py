"""What a trial's held-out losses were along the way, evaluation by evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """One evaluation of a trial; the first is the one before the first update.

    Attributes:
        target_tokens_read: Target tokens of the training stream read when it was made.
        training_seconds: Time that the windows up to then took, nothing else; None where a
            window's time is not on record.
        loss: Validation loss, nats per target token; None where it was not finite.
        retention_loss: Likewise; None also where the study has no retention split.
    """

    target_tokens_read: int
    training_seconds: float | None
    loss: float | None
    retention_loss: float | None = None

    def has_reached(self, target_loss: float) -> bool:
        """Tells whether the loss is at most the target; an equal loss counts."""
        return self.loss is not None and self.loss <= target_loss


def lowest_loss(points: Sequence[EvaluationPoint]) -> float | None:
    """Returns the lowest finite loss after some training; None without one."""
    losses = [point.loss for point in points[1:] if point.loss is not None]
    return min((loss for loss in losses if math.isfinite(loss)), default=None)


def final_loss(points: Sequence[EvaluationPoint]) -> float | None:
    """Returns the loss of the last evaluation where it is finite; None without one."""
    loss = points[-1].loss if points else None
    return loss if loss is not None and math.isfinite(loss) else None
