"""How much the loss still changed at the end: whether another budget may change the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.statistics import finite, mean
from sweeper.selection.trajectory import EvaluationPoint, final_loss
from sweeper.selection.wording import percent, plain, seeds_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Loss at the last evaluation before the end of training begins, minus the loss at its end.

    Attributes:
        n: Completed trials.
        share: Of the target tokens, what lies between the two evaluations: the last 10 %, or more
            where evaluations are further apart. The largest of the trials.
        drop: Mean over the trials, nats per target token; negative where the loss rose.
    """

    n: int
    share: float
    drop: float
    sentence: str


def final_slope(study: StudyEvidence, arm: str) -> Slope | None:
    """Returns the arm's slope at the end.

    None where a completed trial has no evaluation between its start and the last tenth.
    """
    trajectories = [cell.evaluations for cell in study.cells_of(arm) if cell.is_completed]
    stretches = [_last_stretch(points) for points in trajectories]
    known = [stretch for stretch in stretches if stretch is not None]
    if not known or len(known) < len(stretches):
        return None
    share, drop = max(share for share, _ in known), mean([drop for _, drop in known])
    return Slope(
        n=len(known),
        share=share,
        drop=drop,
        sentence=_sentence(study, arm, share, drop, len(known)),
    )


def _last_stretch(points: Sequence[EvaluationPoint]) -> tuple[float, float] | None:
    """Share of the target tokens, and drop, from the last tenth's start to the end."""
    end = final_loss(points)
    if end is None or not (read := points[-1].target_tokens_read):
        return None
    before = [point for point in points[1:] if 10 * point.target_tokens_read <= 9 * read]
    losses = finite(point.loss for point in before[-1:])
    if not losses:
        return None
    return (read - before[-1].target_tokens_read) / read, losses[0] - end


def _sentence(study: StudyEvidence, arm: str, share: float, drop: float, n: int) -> str:
    direction = "rose" if drop < 0 else "fell"
    text = (
        f"The validation loss of {arm} {direction} by {plain(abs(drop))} nats over the last "
        f"{percent(share)} of its target tokens ({seeds_text(n)})"
    )
    if abs(drop) < study.smallest_difference:
        return f"{text}."
    return f"{text}: it had not levelled off, and at another budget the verdict may differ."
