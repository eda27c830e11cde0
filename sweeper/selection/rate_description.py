"""Two numbers that describe the rates compared and decide nothing.

The learning rate sensitivity, and where a parabola through three means is lowest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.selection.boundary import Boundary
from sweeper.selection.evidence import BASELINE, StudyEvidence, StudyKind
from sweeper.selection.statistics import finite, lr_sensitivity, mean
from sweeper.selection.summaries import ArmSummary, start_of
from sweeper.selection.wording import plain


def rate_sensitivity(study: StudyEvidence, summaries: Sequence[ArmSummary]) -> float | None:
    """Returns the mean excess over the best arm's capped loss, over the rates compared.

    None for other factors, while trials are missing, where none has completed (each would count
    with its initial loss), and where an initial loss is not on record.
    """
    if study.kind is not StudyKind.RATE or any(each.n_missing for each in summaries):
        return None
    if not any(each.n_completed for each in summaries):
        return None
    means = finite(each.capped_mean for each in summaries)
    starts = finite(start_of(study, cell) for cell in study.cells_of(BASELINE))
    if len(means) < len(summaries) or len(starts) < len(study.seeds):
        return None
    return lr_sensitivity(means, mean(starts))


def describe_rates(
    study: StudyEvidence, sensitivity: float | None, boundary: Boundary | None
) -> tuple[str, ...]:
    """Returns a sentence on each of the two numbers that is known."""
    vertex = None if boundary is None else boundary.vertex_log2
    known = (_vertex_text(study, vertex), _sensitivity_text(study, sensitivity))
    return tuple(sentence for sentence in known if sentence is not None)


def _sensitivity_text(study: StudyEvidence, sensitivity: float | None) -> str | None:
    if sensitivity is None:
        return None
    rates = finite(arm.number for arm in study.arms)
    return (
        f"Learning rate sensitivity: over the {len(rates)} rates from {plain(min(rates))} to "
        f"{plain(max(rates))} an arm's loss is on average {plain(sensitivity)} nats per target "
        "token above the lowest arm's; a trial counts with at most its initial loss, a stopped one "
        "with that. The number depends on the range and on its steps, and is not to be compared "
        "with published values, which are of others."
    )


def _vertex_text(study: StudyEvidence, vertex_log2: float | None) -> str | None:
    centre = study.baseline.number
    if vertex_log2 is None or centre is None:
        return None
    return (
        "The means at half, once and twice the baseline's rate are consistent with a lowest loss "
        f"near {centre * 2**vertex_log2:.2g}, by the parabola through them. It describes three "
        "points, and recommends no rate."
    )
