"""The guard on earlier abilities: an arm must be shown not to lose more than the margin.

Losses here are never capped: a cap at the start would book a ruined model as no damage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.differences import FEWEST_PAIRS_FOR_A_CLAIM
from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.statistics import (
    finite,
    has_zero_spread,
    lower_bound,
    mean,
    standard_error,
    upper_bound,
)
from sweeper.selection.wording import amount, plain, seeds_text


class RetentionVerdict(StrEnum):
    """Whether the arm is shown to keep earlier abilities as well as the baseline."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention loss of the arm minus the baseline's, over the seeds that both completed.

    Attributes:
        lower: One-sided 95 % lower bound of the mean difference.
        upper: One-sided 95 % upper bound; below the margin the guard is passed.
        above_initial: Mean of the arm's retention loss minus the loss before training.
    """

    verdict: RetentionVerdict
    sentence: str
    n: int
    mean: float | None
    lower: float | None
    upper: float | None
    margin: float
    above_initial: float | None

    @property
    def allows_selection(self) -> bool:
        """Whether the guard leaves the arm eligible; what is not measured does not block."""
        return self.verdict in {RetentionVerdict.PASSED, RetentionVerdict.NOT_MEASURED}


def guard_retention(study: StudyEvidence, arm: str, *, is_comparable: bool = True) -> Retention:
    """Returns the guard's verdict on one arm.

    Args:
        is_comparable: Whether every gate held; no difference is taken of an arm where one did not.
    """
    pairs = list(zip(study.cells_of(arm), study.cells_of(BASELINE), strict=True))
    compared = pairs if is_comparable else []
    differences = finite(_difference(mine, theirs) for mine, theirs in compared)
    cells = [mine for mine, _ in pairs]
    verdict, reason = _judge(study, cells, differences)
    if verdict is RetentionVerdict.INCONCLUSIVE and not is_comparable:
        reason = f"it is not comparable with {BASELINE}"
    above = finite(_above_initial(cell) for cell in cells)
    return Retention(
        verdict=verdict,
        sentence=_sentence(arm, verdict, reason),
        n=len(differences),
        mean=mean(differences) if differences else None,
        lower=lower_bound(differences),
        upper=upper_bound(differences),
        margin=study.retention_margin,
        above_initial=mean(above) if above else None,
    )


def _judge(
    study: StudyEvidence, cells: Sequence[CellEvidence], differences: Sequence[float]
) -> tuple[RetentionVerdict, str]:
    if not study.has_retention:
        return RetentionVerdict.NOT_MEASURED, "the study has no retention split"
    if any(_is_ruined(cell) for cell in cells):
        return RetentionVerdict.FAILED, "a trial was stopped or has no finite retention loss"
    if any(cell.is_completed and cell.retention_loss is None for cell in cells):
        return RetentionVerdict.INCONCLUSIVE, "a completed trial has no retention loss on record"
    upper, lower = upper_bound(differences), lower_bound(differences)
    if upper is None or lower is None or len(differences) < FEWEST_PAIRS_FOR_A_CLAIM:
        return RetentionVerdict.INCONCLUSIVE, f"{seeds_text(len(differences))} cannot show it"
    if has_zero_spread(differences):
        return RetentionVerdict.INCONCLUSIVE, "all seeds gave the same difference"
    return _judge_bounds(study, differences, lower, upper)


def _judge_bounds(
    study: StudyEvidence, differences: Sequence[float], lower: float, upper: float
) -> tuple[RetentionVerdict, str]:
    margin, n = study.retention_margin, len(differences)
    error = standard_error(differences)
    low, high = amount(lower, error), amount(upper, error)
    tail = f"one-sided 95 % bound over {seeds_text(n)}, margin {plain(margin)}"
    if upper < margin:
        return (
            RetentionVerdict.PASSED,
            f"its retention loss is {_at_most(upper, error)} baseline's ({tail})",
        )
    if lower > margin:
        return (
            RetentionVerdict.FAILED,
            f"its retention loss is at least {low} nats above baseline's ({tail})",
        )
    return (
        RetentionVerdict.INCONCLUSIVE,
        f"its retention loss may be up to {high} nats above baseline's ({tail})",
    )


def _at_most(upper: float, error: float | None) -> str:
    if upper < 0:
        return f"at least {amount(-upper, error)} nats below"
    return f"at most {amount(upper, error)} nats above"


def _sentence(arm: str, verdict: RetentionVerdict, reason: str) -> str:
    words = {
        RetentionVerdict.PASSED: f"{arm} passes the retention guard: {reason}.",
        RetentionVerdict.FAILED: f"{arm} fails the retention guard: {reason}.",
        RetentionVerdict.INCONCLUSIVE: f"{arm} is not shown to pass the retention guard: {reason}.",
        RetentionVerdict.NOT_MEASURED: f"Retention was not measured: {reason}.",
    }
    return words[verdict]


def _is_ruined(cell: CellEvidence) -> bool:
    if cell.is_stopped:
        return True
    loss = cell.retention_loss
    return cell.is_completed and loss is not None and not math.isfinite(loss)


def _difference(mine: CellEvidence, theirs: CellEvidence) -> float | None:
    if not (mine.is_completed and theirs.is_completed):
        return None
    if mine.retention_loss is None or theirs.retention_loss is None:
        return None
    return mine.retention_loss - theirs.retention_loss


def _above_initial(cell: CellEvidence) -> float | None:
    if not cell.is_completed or cell.retention_loss is None or cell.retention_initial_loss is None:
        return None
    return cell.retention_loss - cell.retention_initial_loss
