"""Statistics of losses paired by seed: plain numbers in, plain numbers out.

A loss is in nats per target token and lower is better. A trial that a stop condition ended has no
loss; where it must be ranked it counts as infinite. Sums are exact (`math.fsum`), so that the order
of seeds cannot change a digit.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

LARGEST_SIGN_FLIP_COUNT = 20
"""Above it 2^n sign patterns are too many to enumerate."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed range of values."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Tells whether the value lies in the range."""
        return self.low <= value <= self.high


def mean(values: Sequence[float]) -> float:
    """Returns the arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def sample_sd(values: Sequence[float]) -> float | None:
    """Returns the standard deviation with n - 1 in the denominator; None below two values."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def standard_error(differences: Sequence[float]) -> float | None:
    """Returns the standard error of the mean; None below two values."""
    sd = sample_sd(differences)
    return None if sd is None else sd / math.sqrt(len(differences))


def has_zero_spread(values: Sequence[float], *, magnitude: float = 0.0) -> bool:
    """Tells whether values are equal up to rounding.

    Args:
        magnitude: Size of the numbers that the values were subtracted from; their rounding is no
            spread.
    """
    sd = sample_sd(values)
    rounding = 4 * sys.float_info.epsilon * magnitude
    return sd is not None and sd <= max(1e-9 * abs(mean(values)), rounding)


def t_interval(differences: Sequence[float], level: float) -> Interval | None:
    """Returns Student's interval for the mean of paired differences; None below two."""
    error = standard_error(differences)
    if error is None:
        return None
    half = float(special.stdtrit(len(differences) - 1, (1 + level) / 2)) * error
    return Interval(mean(differences) - half, mean(differences) + half)


def paired_t_p(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p of the paired t test; None where it cannot be asked.

    It cannot below two differences, nor when they are all equal: the formula would then give
    p = 0 for any number of copies of one run.
    """
    error = standard_error(differences)
    if not error or has_zero_spread(differences):
        return None
    statistic = abs(mean(differences)) / error
    return 2 * float(special.stdtr(len(differences) - 1, -statistic))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Returns p values adjusted for testing them all, in the order given.

    Source: Holm (1979), step-down; the k-th smallest of m is multiplied by m - k + 1.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Returns the exact two-sided p over all 2^n sign patterns.

    None without a difference, or with more than `LARGEST_SIGN_FLIP_COUNT` of them.
    """
    if not 0 < len(differences) <= LARGEST_SIGN_FLIP_COUNT:
        return None
    sums = np.zeros(1)
    for difference in sorted(differences):
        sums = np.concatenate((sums + difference, sums - difference))
    rounding = 1e-12 * math.fsum(abs(difference) for difference in differences)
    extreme = np.abs(sums) >= abs(math.fsum(differences)) - rounding
    return int(np.count_nonzero(extreme)) / len(sums)


def clopper_pearson(count: int, n: int, level: float = 0.95) -> Interval | None:
    """Returns the exact interval for a rate of which `count` of `n` were seen; None for n = 0."""
    if n == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else float(special.betaincinv(count, n - count + 1, tail))
    high = 1.0 if count == n else float(special.betaincinv(count + 1, n - count, 1 - tail))
    return Interval(low, high)


def paired_improvement(arm: Sequence[float], baseline: Sequence[float]) -> float | None:
    """Returns the share of seeds in which the arm is lower, ties counting one half.

    A failed trial is `inf` in both sequences; None without a pair.
    """
    if not arm:
        return None
    wins = [_win(mine, theirs) for mine, theirs in zip(arm, baseline, strict=True)]
    return math.fsum(wins) / len(wins)


def all_pairs_improvement(arm: Sequence[float], baseline: Sequence[float]) -> float | None:
    """Returns the share of all arm-baseline pairs in which the arm is lower (Mann-Whitney)."""
    if not arm or not baseline:
        return None
    wins = [_win(mine, theirs) for mine in arm for theirs in baseline]
    return math.fsum(wins) / len(wins)


def _win(mine: float, theirs: float) -> float:
    if mine == theirs:
        return 0.5
    return 1.0 if mine < theirs else 0.0


def capped(loss: float | None, initial_loss: float) -> float:
    """Returns the loss, at most the loss before training; a failed trial counts as that."""
    if loss is None or math.isnan(loss):
        return initial_loss
    return min(loss, initial_loss)


def lr_sensitivity(losses: Sequence[float | None], initial_loss: float) -> float:
    """Returns the mean excess of capped losses over the best of them, over the rates compared.

    Source: Wortsman et al. (2023), arXiv 2309.14322, section 2.2, as a mean over the arms.
    """
    bounded = [capped(loss, initial_loss) for loss in losses]
    lowest = min(bounded)
    return mean([each - lowest for each in bounded])


def correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Returns Pearson's r; None below three pairs or when one side does not vary."""
    if len(left) < 3 or has_zero_spread(left) or has_zero_spread(right):
        return None
    centre_left, centre_right = mean(left), mean(right)
    product = math.fsum(
        (x - centre_left) * (y - centre_right) for x, y in zip(left, right, strict=True)
    )
    squares_left = math.fsum((x - centre_left) ** 2 for x in left)
    squares_right = math.fsum((y - centre_right) ** 2 for y in right)
    return product / math.sqrt(squares_left * squares_right)


def unpaired_error(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Returns the standard error of the difference had the seeds not been shared."""
    errors = standard_error(left), standard_error(right)
    if errors[0] is None or errors[1] is None:
        return None
    return math.hypot(errors[0], errors[1])


@functools.cache
def detectable_in_sd(n: int, *, alpha: float, power: float = 0.8) -> float | None:
    """Returns the true mean, in standard deviations of a difference, seen with this power.

    Solves P(T > t(1 - alpha/2)) = power for the noncentral t of n - 1 degrees of freedom. The far
    tail is left out: it adds less than 1e-6. None below two pairs.
    """
    if n < 2:
        return None
    critical = float(special.stdtrit(n - 1, 1 - alpha / 2))
    low, high = 0.0, 1.0
    while special.nctdtr(n - 1, high, critical) > 1 - power:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        if special.nctdtr(n - 1, middle, critical) > 1 - power:
            low = middle
        else:
            high = middle
    return high / math.sqrt(n)


def upper_bound(differences: Sequence[float], level: float = 0.95) -> float | None:
    """Returns the one-sided upper bound of the mean."""
    interval = t_interval(differences, 2 * level - 1)
    return None if interval is None else interval.high


def lower_bound(differences: Sequence[float], level: float = 0.95) -> float | None:
    """Returns the one-sided lower bound of the mean."""
    interval = t_interval(differences, 2 * level - 1)
    return None if interval is None else interval.low


def vertex_log2(lower: float, middle: float, upper: float) -> float | None:
    """Returns where a parabola through three means at x = -1, 0, 1 is lowest.

    None when it bends the wrong way, or is lowest outside the three points.
    """
    curvature = lower - 2 * middle + upper
    if curvature <= 0:
        return None
    vertex = (lower - upper) / (2 * curvature)
    return vertex if abs(vertex) <= 1 + 1e-9 else None


def finite(values: Iterable[float | None]) -> tuple[float, ...]:
    """Returns the values that are known and finite, in order."""
    return tuple(value for value in values if value is not None and math.isfinite(value))
