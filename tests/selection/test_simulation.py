"""The whole rule on simulated studies: how often it claims what is not so, and finds what is.

Losses are normal. The rule is written a second time here, for many studies at once and from the
definitions alone; the real one must judge every study alike, and the rate is then taken over so
many studies that its error (one standard error, from the number of studies alone) is 0.05 %.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sweeper.selection.arm_comparison import compare_arms
from sweeper.selection.comparison import compare
from sweeper.selection.verdicts import VerdictKind

pytestmark = pytest.mark.costly

CLAIMS = {
    VerdictKind.BETTER,
    VerdictKind.BETTER_PROVISIONAL,
    VerdictKind.WORSE,
    VerdictKind.WORSE_PROVISIONAL,
    VerdictKind.RELIABLE_BUT_BELOW_DELTA,
}
FIRST = ("half", "baseline", "double")
EVERY = ("x0.125", "x0.25", *FIRST, "x4", "x8")
SD_OF_LOSS = 0.004
SD_OF_DIFFERENCE = SD_OF_LOSS * math.sqrt(2)


def draws(studies, seeds, *, generator_seed, half=0.0):
    """Losses `[studies, arms, seeds]`: a level per seed that arms share, and noise of their own."""
    generator = np.random.default_rng(generator_seed)
    losses = 1.6 + generator.normal(0, 0.02, (studies, 1, seeds))
    losses = losses + generator.normal(0, SD_OF_LOSS, (studies, len(EVERY), seeds))
    losses[:, EVERY.index("half")] += half
    return losses


def to_its_end(make_study, losses, extensions):
    """Runs a study as it would go: further arms follow at an edge, as long as they may."""
    arms = FIRST
    while True:
        entries = {arm: losses[EVERY.index(arm)].tolist() for arm in arms}
        found = compare(
            make_study(entries, smallest_difference=1e-9, extensions=extensions, closed=False)
        )
        following = found.boundary.next_arm
        if following is None:
            return found
        arms = (*arms, following.name)


def error_of(rate, studies):
    return math.sqrt(rate * (1 - rate) / studies)


def claims_by_definition(losses, extensions):
    """Whether a study claims a difference, and how many arms it came to; for many studies.

    The best arm has the lowest mean. At the edge of the arms run so far, the next one follows. In
    the end some arm is told from the baseline when the smallest p of m is at most 5 % / m, which
    is where Holm's procedure begins.
    """
    studies, arms, _ = losses.shape
    place, baseline = np.arange(arms), EVERY.index("baseline")
    low, high = np.full(studies, EVERY.index("half")), np.full(studies, EVERY.index("double"))
    for _ in range(extensions):
        is_run = (place >= low[:, None]) & (place <= high[:, None])
        best = np.where(is_run, losses.mean(axis=2), np.inf).argmin(axis=1)
        low, high = low - (best == low), high + (best == high)
    is_run = (place >= low[:, None]) & (place <= high[:, None])
    others = np.delete(np.arange(arms), baseline)
    p = stats.ttest_rel(losses[:, others], losses[:, [baseline]], axis=2).pvalue
    family = is_run.sum(axis=1) - 1
    smallest = np.where(is_run[:, others], p, np.inf).min(axis=1)
    return smallest <= 0.05 / family, family


PROCESSES = pytest.mark.parametrize(("seeds", "extensions"), [(5, 2), (3, 2), (5, 0)])


@PROCESSES
def test_every_study_is_judged_as_the_definitions_say(make_study, seeds, extensions):
    """Any claim on any arm counts, a provisional one and one below the margin included."""
    every = draws(300, seeds, generator_seed=10 * seeds + extensions)
    found = [to_its_end(make_study, losses, extensions) for losses in every]
    claims = [any(arm.verdict.kind in CLAIMS for arm in each.arms) for each in found]
    expected, family = claims_by_definition(every, extensions)

    assert claims == expected.tolist()
    assert [len(each.arms) for each in found] == family.tolist()
    assert sum(claims) >= 5  # so that agreeing means something
    assert max(family) == 2 + extensions


@PROCESSES
def test_identical_arms_are_told_apart_in_at_most_5_percent_of_studies(seeds, extensions):
    claims, _ = claims_by_definition(
        draws(200_000, seeds, generator_seed=seeds + extensions), extensions
    )

    assert error_of(0.05, 200_000) < 0.0005
    assert np.mean(claims) <= 0.05


@pytest.mark.parametrize(("seeds", "stated"), [(3, 0.28), (5, 0.78), (8, 0.99)])
def test_an_effect_of_two_standard_deviations_is_found_as_often_as_stated(
    make_study, seeds, stated
):
    """Stated to a whole percent, and by the noncentral t at the first of Holm's two levels.

    That is the least: where the other arm is rejected too, the level is twice that.
    """
    studies = 500
    every = draws(studies, seeds, generator_seed=seeds, half=-2 * SD_OF_DIFFERENCE)
    kinds = [
        compare_arms(
            make_study(
                {arm: losses[EVERY.index(arm)].tolist() for arm in FIRST}, smallest_difference=1e-9
            )
        )[0].verdict.kind
        for losses in every
    ]
    found = np.mean([kind.startswith("better") for kind in kinds])
    least = stats.nct.sf(stats.t.ppf(1 - 0.025 / 2, seeds - 1), seeds - 1, 2 * math.sqrt(seeds))

    assert found == pytest.approx(stated, abs=0.005 + 3 * error_of(stated, studies))
    assert found == pytest.approx(least, abs=0.01 + 3 * error_of(least, studies))
