"""What the opened test split says about the choice: gaps, and whether the difference is confirmed.

The gap of a model is its test loss minus its validation loss. Nothing was selected with the
untrained model, so its gap is how much harder the test split is; what the chosen arm's gap has
beyond it is what selecting and fitting took. Losses and differences are in nats per target token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.case import FEWEST_PAIRS_FOR_A_SELECTION
from sweeper.selection.choice import ChoiceKind
from sweeper.selection.comparison import Comparison
from sweeper.selection.differences import ALPHA, SeedDifference
from sweeper.selection.evidence import BASELINE
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, OpenedLoss, OpenedOverlap
from sweeper.selection.statistics import (
    Interval,
    has_zero_spread,
    mean,
    paired_t_p,
    sample_sd,
    standard_error,
    t_interval,
)


class Confirmation(StrEnum):
    """What became of the difference that was selected for."""

    CONFIRMED = "confirmed"
    SAME_SIGN = "same sign, not reliable"
    REVERSED = "reversed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRule:
    """What the agreed rule needs to know.

    Attributes:
        smallest_difference: That was declared to matter.
        noise_floor: By which two runs of the baseline differ; 0 where it was not measured.
        claims_improvement: Whether the arm was chosen because it is better, so that there is
            something to confirm.
    """

    smallest_difference: float
    noise_floor: float = 0.0
    claims_improvement: bool = True

    @classmethod
    def of(cls, comparison: Comparison) -> OpenedRule:
        """Returns the rule of the study that was compared."""
        floor = comparison.noise_floor
        return cls(
            smallest_difference=comparison.smallest_difference,
            noise_floor=0.0 if floor is None or floor.nats is None else floor.nats,
            claims_improvement=comparison.choice.kind is ChoiceKind.BETTER,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Test minus validation of one role, as means over the seeds that have both.

    Attributes:
        n: Of those seeds.
        left_out: Seeds whose test loss is not finite.
    """

    role: Role
    arm: str | None
    n: int
    left_out: int
    validation: float
    test: float

    @property
    def gap(self) -> float:
        """How much higher the test loss is."""
        return self.test - self.validation


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDifference:
    """Chosen arm - baseline on the test split, paired by seed.

    Attributes:
        by_seed: In the order of the frozen list.
        validation_mean: The same difference on the validation split, over the same seeds.
        sd: None below two pairs, as all that follows from it; where the differences do not vary,
            nothing follows from it.
        p: Two-sided, paired t, of one test.
        shrinkage: Mean here - mean there: how much of the difference is gone.
    """

    by_seed: tuple[SeedDifference, ...]
    n: int
    mean: float
    validation_mean: float
    sd: float | None
    standard_error: float | None
    interval_95: Interval | None
    p: float | None
    lower_in: int

    @property
    def shrinkage(self) -> float:
        """How much of the difference is gone."""
        return self.mean - self.validation_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedVerdict:
    """What the opened test split says.

    Attributes:
        gaps: Chosen arm, baseline, untrained model; those there are.
        split_difficulty: The gap of the untrained model; None where it has none.
        selection_part: What the chosen arm's gap has beyond it.
        difference: None where the baseline was kept, or no pair has both losses.
        word: None where there is no difference, or none was claimed.
        records: Of the test split, all that were read.
        leaks: What of it was trained on or selected with; empty where it is unseen, as it should.
    """

    chosen: str
    gaps: tuple[Gap, ...]
    split_difficulty: float | None
    selection_part: float | None
    difference: OpenedDifference | None
    word: Confirmation | None
    rule: OpenedRule
    records: int
    leaks: tuple[OpenedOverlap, ...]


def judge_opened(opened: Opened, rule: OpenedRule) -> OpenedVerdict:
    """Returns the verdict by the study's own paired rule, with one arm in the family."""
    found = (_gap(opened, role) for role in Role)
    gaps = {gap.role: gap for gap in found if gap is not None}
    initial, chosen = gaps.get(Role.INITIAL), gaps.get(Role.CHOSEN, gaps.get(Role.BASELINE))
    difficulty = None if initial is None else initial.gap
    part = None if chosen is None or difficulty is None else chosen.gap - difficulty
    difference = None if opened.chosen == BASELINE else _difference(opened)
    claimed = difference is not None and rule.claims_improvement
    return OpenedVerdict(
        chosen=opened.chosen,
        gaps=tuple(gaps.values()),
        split_difficulty=difficulty,
        selection_part=part,
        difference=difference,
        word=_word(difference, rule) if difference is not None and claimed else None,
        rule=rule,
        records=opened.records_read,
        leaks=opened.leaks,
    )


def _gap(opened: Opened, role: Role) -> Gap | None:
    losses = [loss for loss in opened.losses if loss.role is role]
    both = [(loss.validation_loss, loss.test_loss) for loss in losses if _is_known(loss)]
    tested = [test for _, test in both if test is not None]
    if not tested:
        return None
    return Gap(
        role=role,
        arm=losses[0].arm,
        n=len(both),
        left_out=len(losses) - len(both),
        validation=mean([validation for validation, _ in both]),
        test=mean(tested),
    )


def _is_known(loss: OpenedLoss) -> bool:
    return loss.test_loss is not None and math.isfinite(loss.test_loss)


def _difference(opened: Opened) -> OpenedDifference | None:
    mine, theirs = _by_seed(opened, Role.CHOSEN), _by_seed(opened, Role.BASELINE)
    seeds = [seed for seed in mine if seed in theirs]
    tests = [_test(mine[seed]) - _test(theirs[seed]) for seed in seeds]
    if not tests:
        return None
    magnitude = max(abs(_test(loss)) for loss in (*mine.values(), *theirs.values()))
    alike = has_zero_spread(tests, magnitude=magnitude)
    return OpenedDifference(
        by_seed=tuple(
            SeedDifference(seed=seed, difference=test)
            for seed, test in zip(seeds, tests, strict=True)
        ),
        n=len(seeds),
        mean=mean(tests),
        validation_mean=mean(
            [mine[seed].validation_loss - theirs[seed].validation_loss for seed in seeds]
        ),
        sd=sample_sd(tests),
        standard_error=None if alike else standard_error(tests),
        interval_95=None if alike else t_interval(tests, 1 - ALPHA),
        p=None if alike else paired_t_p(tests),
        lower_in=sum(test < 0 for test in tests),
    )


def _by_seed(opened: Opened, role: Role) -> Mapping[int, OpenedLoss]:
    known = (loss for loss in opened.losses if loss.role is role and _is_known(loss))
    return {loss.seed: loss for loss in known}


def _test(loss: OpenedLoss) -> float:
    assert loss.test_loss is not None
    return loss.test_loss


def _word(difference: OpenedDifference, rule: OpenedRule) -> Confirmation:
    if difference.mean * difference.validation_mean < 0:
        return Confirmation.REVERSED
    shown = (
        difference.n >= FEWEST_PAIRS_FOR_A_SELECTION
        and difference.p is not None
        and difference.p <= ALPHA
        and abs(difference.mean) >= max(rule.smallest_difference, rule.noise_floor)
    )
    return Confirmation.CONFIRMED if shown else Confirmation.SAME_SIGN
