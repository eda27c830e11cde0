from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sweeper.selection import statistics
from sweeper.selection.statistics import Interval

DIGITS = 1e-9
"""The cases give nine decimals."""

UNHURRIED = settings(deadline=None)
"""A loaded machine is no failure."""

losses = st.integers(1024, 3072).map(lambda k: k / 1024)


def paired(arm, baseline):
    return [mine - theirs for mine, theirs in zip(arm, baseline, strict=True)]


@pytest.fixture
def t01(cases):
    given_, expected = cases["T01"]["given"], cases["T01"]["expect"]
    return given_["half"], given_["baseline"], expected


def test_mean_sd_and_standard_error_of_case_t01(t01):
    half, baseline, expected = t01
    d = paired(half, baseline)

    assert statistics.mean(d) == pytest.approx(expected["mean"], abs=DIGITS)
    assert statistics.sample_sd(d) == pytest.approx(expected["sd"], abs=DIGITS)
    assert statistics.standard_error(d) == pytest.approx(expected["se"], abs=DIGITS)


def test_p_and_intervals_of_case_t01(t01):
    half, baseline, expected = t01
    d = paired(half, baseline)
    narrow, wide = statistics.t_interval(d, 0.95), statistics.t_interval(d, 0.975)

    assert statistics.paired_t_p(d) == pytest.approx(expected["p"], abs=DIGITS)
    assert [narrow.low, narrow.high] == pytest.approx(expected["ci95"], abs=DIGITS)
    assert [wide.low, wide.high] == pytest.approx(expected["ci_simultaneous_97_5"], abs=DIGITS)


def test_sign_flip_and_improvement_of_case_t01(t01):
    half, baseline, expected = t01

    assert statistics.sign_flip_p(paired(half, baseline)) == expected["sign_flip_p"]
    assert statistics.paired_improvement(half, baseline) == expected["poi_paired"]
    assert statistics.all_pairs_improvement(half, baseline) == expected["poi_all_pairs"]


def test_correlation_and_unpaired_error_of_case_t01_agree_with_numpy(t01):
    half, baseline, _ = t01
    unpaired = math.sqrt((np.var(half, ddof=1) + np.var(baseline, ddof=1)) / 5)

    assert statistics.correlation(half, baseline) == pytest.approx(
        np.corrcoef(half, baseline)[0, 1], rel=1e-12
    )
    assert statistics.correlation(half, baseline) == pytest.approx(0.907, abs=5e-4)
    assert statistics.unpaired_error(half, baseline) == pytest.approx(unpaired, rel=1e-12)
    assert statistics.unpaired_error(half, baseline) == pytest.approx(0.003682, abs=5e-7)


@UNHURRIED
@given(st.lists(st.tuples(losses, losses), min_size=3, max_size=9))
def test_the_paired_test_agrees_with_scipy(pairs):
    arm, baseline = zip(*pairs, strict=True)
    d = paired(arm, baseline)
    assume(not statistics.has_zero_spread(d))
    reference = stats.ttest_rel(arm, baseline)
    interval = reference.confidence_interval(0.95)
    ours = statistics.t_interval(d, 0.95)

    assert statistics.paired_t_p(d) == pytest.approx(reference.pvalue, rel=1e-8)
    assert ours.low == pytest.approx(interval.low, rel=1e-8, abs=1e-12)
    assert ours.high == pytest.approx(interval.high, rel=1e-8, abs=1e-12)


def test_one_seed_has_a_mean_and_nothing_else(cases):
    given_, expected = cases["T02"]["given"], cases["T02"]["expect"]
    d = paired(given_["half"], given_["baseline"])

    assert statistics.mean(d) == pytest.approx(expected["mean"], abs=DIGITS)
    assert statistics.sample_sd(d) is expected["sd"] is None
    assert statistics.t_interval(d, 0.95) is expected["ci95"] is None
    assert statistics.paired_t_p(d) is expected["p"] is None


def test_three_seeds_of_mixed_sign_of_case_t03(cases):
    d, expected = cases["T03"]["given"]["d_mixed"], cases["T03"]["expect"]["mixed"]
    interval = statistics.t_interval(d, 0.95)

    assert statistics.mean(d) == pytest.approx(expected["mean"], abs=DIGITS)
    assert [interval.low, interval.high] == pytest.approx(expected["ci95"], abs=DIGITS)
    assert statistics.paired_t_p(d) == pytest.approx(expected["p"], abs=DIGITS)


def test_three_seeds_of_one_sign_of_case_t03(cases):
    d, expected = cases["T03"]["given"]["d_same"], cases["T03"]["expect"]["same"]
    p = statistics.paired_t_p(d)

    assert statistics.sample_sd(d) == pytest.approx(expected["sd"], abs=DIGITS)
    assert p == pytest.approx(expected["p"], abs=DIGITS)
    assert statistics.holm([p, 1.0])[0] == pytest.approx(expected["p_holm_m2"], abs=DIGITS)
    assert statistics.sign_flip_p(d) == expected["sign_flip_p"]


def test_failures_count_in_the_capped_mean_and_in_the_rate_of_case_t04(cases):
    expected = cases["T04"]["expect"]
    capped = [statistics.capped(loss, 2.1) for loss in (math.nan, 1.70, math.inf)]
    rate = statistics.clopper_pearson(2, 3)

    assert capped == expected["capped"]
    assert statistics.mean(capped) == pytest.approx(expected["capped_mean"], abs=DIGITS)
    assert [rate.low, rate.high] == pytest.approx(expected["failure_rate_cp95"], abs=DIGITS)
    assert (
        statistics.paired_improvement([math.inf, 1.70, math.inf], cases["T04"]["given"]["baseline"])
        == expected["poi_paired"]
    )


def test_lr_sensitivity_of_case_t05_is_capped_at_the_initial_loss(cases):
    given_, expected = cases["T05"]["given"], cases["T05"]["expect"]

    assert statistics.lr_sensitivity(given_["losses"], given_["l0"]) == pytest.approx(
        expected["lr_sensitivity"], abs=DIGITS
    )
    assert statistics.lr_sensitivity(given_["losses"], math.inf) == pytest.approx(
        expected["uncapped_would_be"], abs=DIGITS
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_holm_of_case_t06(cases, number):
    given_, expected = cases["T06"]["given"]["p"], cases["T06"]["expect"]["adj"]

    assert statistics.holm(given_[number]) == pytest.approx(expected[number], abs=DIGITS)


def test_holm_keeps_the_order_of_its_input_and_stays_below_one():
    assert statistics.holm([0.04, 0.01, 0.9]) == pytest.approx((0.08, 0.03, 0.9))
    assert statistics.holm([0.9, 0.6]) == (1.0, 1.0)
    assert statistics.holm([]) == ()


def test_holm_and_the_simultaneous_interval_disagree_in_case_t06(cases):
    given_, expected = cases["T06"]["given"], cases["T06"]["expect"]["double"]
    d = given_["d_double"]
    adjusted = statistics.holm([statistics.paired_t_p(given_["d_half"]), statistics.paired_t_p(d)])
    narrow, wide = statistics.t_interval(d, 0.95), statistics.t_interval(d, 0.975)

    assert statistics.mean(d) == pytest.approx(expected["mean"], abs=DIGITS)
    assert statistics.paired_t_p(d) == pytest.approx(expected["p"], abs=DIGITS)
    assert adjusted[1] == pytest.approx(expected["p_holm"], abs=DIGITS)
    assert [narrow.low, narrow.high] == pytest.approx(expected["ci95"], abs=DIGITS)
    assert [wide.low, wide.high] == pytest.approx(expected["ci97_5"], abs=DIGITS)
    assert wide.holds(0.0)


@UNHURRIED
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_an_adjusted_p_is_never_below_the_raw_one(p_values):
    assert all(
        adjusted >= raw for adjusted, raw in zip(statistics.holm(p_values), p_values, strict=True)
    )


@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_the_vertex_of_case_t09(cases, case):
    expected = cases["T09"]["expect"][case]["vertex_log2"]

    assert statistics.vertex_log2(*cases["T09"]["given"][case]) == (
        None if expected is None else pytest.approx(expected, abs=DIGITS)
    )


def test_a_vertex_outside_the_three_points_is_none():
    """Losses 1.5, 1.0, 0.6 bend upwards, with the minimum at x = 4.5."""
    assert statistics.vertex_log2(1.5, 1.0, 0.6) is None


@pytest.mark.parametrize("case", ["pass", "inconclusive"])
def test_the_upper_retention_bound_of_case_t10(cases, case):
    d, expected = cases["T10"]["given"][case], cases["T10"]["expect"][case]

    assert statistics.mean(d) == pytest.approx(expected["mean"], abs=DIGITS)
    assert statistics.upper_bound(d) == pytest.approx(expected["upper"], abs=DIGITS)


@pytest.mark.parametrize("case", ["inconclusive", "fail"])
def test_the_lower_retention_bound_of_case_t10(cases, case):
    d, expected = cases["T10"]["given"][case], cases["T10"]["expect"][case]

    assert statistics.lower_bound(d) == pytest.approx(expected["lower"], abs=DIGITS)


def test_the_90_percent_interval_of_case_t13(cases):
    interval = statistics.t_interval(cases["T13"]["given"]["equivalence_d"], 0.90)

    assert [interval.low, interval.high] == pytest.approx(
        cases["T13"]["expect"]["equivalence_interval_90"], abs=DIGITS
    )


@pytest.mark.parametrize(
    ("values", "magnitude", "alike"),
    [
        ([-0.015, -0.015, -0.015], 0.0, True),
        ([0.0, 0.0, 0.0], 0.0, True),
        ([-0.015, -0.015, -0.015 * (1 + 1e-10)], 0.0, True),
        ([-0.015, -0.015, -0.015 * (1 + 1e-8)], 0.0, False),
        ([2.2e-16, 0.0, -2.2e-16], 1.6, True),
        ([2.2e-16, 0.0, -2.2e-16], 0.0, False),
        ([-0.01], 0.0, False),
    ],
)
def test_zero_spread_is_equality_up_to_rounding(values, magnitude, alike):
    assert statistics.has_zero_spread(values, magnitude=magnitude) is alike


@pytest.mark.parametrize(
    ("n", "t", "sign_flip", "in_sd", "in_sd_of_two_arms"),
    [
        (2, 12.71, 0.5, 11.55, 23.08),
        (3, 4.30, 0.25, 3.264, 4.625),
        (4, 3.18, 0.125, 2.128, 2.716),
        (5, 2.78, 0.0625, 1.682, 2.050),
        (6, 2.57, 0.03125, 1.4345, 1.705),
        (8, 2.36, 0.0078125, 1.156, 1.339),
        (10, 2.26, 0.001953125, 0.9960, 1.139),
    ],
)
def test_what_a_number_of_seeds_can_show(n, t, sign_flip, in_sd, in_sd_of_two_arms):
    d = [-(index + 1) / 100 for index in range(n)]
    interval = statistics.t_interval(d, 0.95)
    half = (interval.high - interval.low) / 2

    assert half / statistics.standard_error(d) == pytest.approx(t, abs=5e-3)
    assert statistics.sign_flip_p(d) == sign_flip
    assert statistics.detectable_in_sd(n, alpha=0.05) == pytest.approx(in_sd, rel=3e-4)
    assert statistics.detectable_in_sd(n, alpha=0.025) == pytest.approx(in_sd_of_two_arms, rel=3e-4)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 10, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.05 / 7])
def test_the_detectable_difference_is_seen_in_80_percent_of_studies(n, alpha):
    """Power by integrating over the sample's standard deviation, with no noncentral t."""
    df, critical = n - 1, stats.t.ppf(1 - alpha / 2, n - 1)
    shift = statistics.detectable_in_sd(n, alpha=alpha) * math.sqrt(n)

    def seen(s):
        found = stats.norm.cdf(shift - critical * s) + stats.norm.cdf(-shift - critical * s)
        return found * stats.chi.pdf(s * math.sqrt(df), df) * math.sqrt(df)

    power = integrate.quad(seen, 0, 2, limit=500)[0] + integrate.quad(seen, 2, 12, limit=500)[0]
    assert power == pytest.approx(0.8, abs=2e-6)


@pytest.mark.parametrize("n", [0, 1])
def test_without_two_pairs_there_is_no_resolution(n):
    assert statistics.detectable_in_sd(n, alpha=0.05) is None


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [
        (3, 3, 0.2924018, 1.0),
        (0, 5, 0.0, 0.5218238),
        (5, 5, 0.4781762, 1.0),
        (6, 6, 0.5407419, 1.0),
    ],
)
def test_clopper_pearson_at_the_ends(count, n, low, high):
    """With k = n the lower end is (alpha / 2)^(1/n)."""
    interval = statistics.clopper_pearson(count, n)
    reference = stats.binomtest(count, n).proportion_ci(method="exact")

    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-7)
    assert (interval.low, interval.high) == pytest.approx(
        (reference.low, reference.high), abs=1e-12
    )


def test_a_rate_of_no_trials_is_unknown():
    assert statistics.clopper_pearson(0, 0) is None


@UNHURRIED
@given(st.lists(st.integers(-64, 64).map(lambda k: k / 1024), min_size=2, max_size=8))
def test_the_sign_flip_p_agrees_with_scipy(d):
    reference = stats.permutation_test(
        (d,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    observed = abs(sum(d))
    by_hand = np.mean(np.abs(reference.null_distribution) >= observed)

    assert statistics.sign_flip_p(d) == pytest.approx(by_hand)


@pytest.mark.parametrize("n", [0, statistics.LARGEST_SIGN_FLIP_COUNT + 1])
def test_sign_flips_are_left_out_where_there_are_none_or_too_many(n):
    assert statistics.sign_flip_p([0.01] * n) is None


@pytest.mark.parametrize(
    ("arm", "baseline", "share"),
    [
        ([1.5, 1.6, 1.7], [1.6, 1.6, 1.6], 0.5),
        ([math.inf, 1.5], [1.6, 1.6], 0.5),
        ([math.inf, 1.5], [math.inf, 1.6], 0.75),
        ([1.5], [math.inf], 1.0),
        ([], [], None),
    ],
)
def test_a_failed_trial_ranks_last_and_two_failures_tie(arm, baseline, share):
    assert statistics.paired_improvement(arm, baseline) == share


def test_all_pairs_improvement_agrees_with_mann_whitney():
    arm, baseline = [1.59, 1.60, 1.70], [1.60, 1.65]
    u = stats.mannwhitneyu(baseline, arm).statistic

    assert statistics.all_pairs_improvement(arm, baseline) == u / 6
    assert statistics.all_pairs_improvement([], baseline) is None


@UNHURRIED
@given(st.lists(losses, min_size=2, max_size=9), st.randoms())
def test_the_order_of_seeds_changes_no_digit(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)

    assert statistics.mean(shuffled) == statistics.mean(values)
    assert statistics.sample_sd(shuffled) == statistics.sample_sd(values)
    assert statistics.t_interval(shuffled, 0.95) == statistics.t_interval(values, 0.95)
    assert statistics.sign_flip_p(shuffled) == statistics.sign_flip_p(values)


def test_correlation_needs_three_pairs_that_vary():
    assert statistics.correlation([1.0, 2.0], [1.0, 2.0]) is None
    assert statistics.correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None
    assert statistics.correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -1.0


def test_the_unpaired_error_needs_two_values_on_each_side():
    assert statistics.unpaired_error([1.0], [1.0]) is None


def test_bounds_need_two_differences():
    assert statistics.upper_bound([0.01]) is None
    assert statistics.lower_bound([0.01]) is None


def test_unknown_and_infinite_values_are_no_numbers_to_average():
    assert statistics.finite([1.5, None, math.nan, math.inf, 1.6]) == (1.5, 1.6)


def test_an_interval_holds_its_ends():
    assert Interval(-1.0, 0.0).holds(0.0)
    assert not Interval(-1.0, -0.5).holds(0.0)
