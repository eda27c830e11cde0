from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.differences import adjust_family, compare_with_baseline


def shifted(baseline, differences):
    return [loss + d for loss, d in zip(baseline, differences, strict=True)]


@pytest.fixture
def t01(make_study, cases):
    """Half of case T01, and double of case T06 over the same baseline."""
    baseline = cases["T01"]["given"]["baseline"]
    return make_study(
        {
            "half": cases["T01"]["given"]["half"],
            "baseline": baseline,
            "double": shifted(baseline, cases["T06"]["given"]["d_double"]),
        }
    )


def family(study):
    found = {arm.name: compare_with_baseline(study, arm.name) for arm in study.rivals}
    return adjust_family(study, found)


def test_every_number_of_case_t01(t01, cases):
    half, expected = family(t01)["half"], cases["T01"]["expect"]

    assert half.mean == pytest.approx(expected["mean"], abs=1e-9)
    assert half.sd == pytest.approx(expected["sd"], abs=1e-9)
    assert half.standard_error == pytest.approx(expected["se"], abs=1e-9)
    assert half.p == pytest.approx(expected["p"], abs=1e-9)
    assert half.p_holm == pytest.approx(expected["p_holm_m2"], abs=1e-9)
    assert half.sign_flip_p == expected["sign_flip_p"]
    assert half.paired_improvement == expected["poi_paired"]
    assert half.all_pairs_improvement == expected["poi_all_pairs"]


def test_intervals_of_case_t01_at_95_percent_and_simultaneously(t01, cases):
    half, expected = family(t01)["half"], cases["T01"]["expect"]
    wide = half.simultaneous

    assert [half.interval_95.low, half.interval_95.high] == pytest.approx(
        expected["ci95"], abs=1e-9
    )
    assert [wide.low, wide.high] == pytest.approx(expected["ci_simultaneous_97_5"], abs=1e-9)
    assert half.simultaneous_level == 0.975


def test_differences_of_case_t01_seed_by_seed(t01):
    half = family(t01)["half"]

    assert [pair.seed for pair in half.by_seed] == [0, 1, 2, 3, 4]
    assert [pair.difference for pair in half.by_seed] == pytest.approx(
        [-0.012, -0.009, -0.015, -0.008, -0.009]
    )
    assert (half.n, half.n_planned, half.lower_in, half.is_partial) == (5, 5, 5, False)
    assert half.correlation == pytest.approx(0.907, abs=5e-4)
    assert half.unpaired_error == pytest.approx(0.003682, abs=5e-7)


def test_holm_of_case_t06_in_the_declared_family(t01, cases):
    double, expected = family(t01)["double"], cases["T06"]["expect"]["double"]

    assert double.p == pytest.approx(expected["p"], abs=1e-9)
    assert double.p_holm == pytest.approx(expected["p_holm"], abs=1e-9)


def test_the_resolution_counts_the_family(t01):
    """2.050 standard deviations of a difference at alpha 0.025 and 5 seeds."""
    assert family(t01)["half"].resolution == pytest.approx(2.050007 * 0.002880972, rel=1e-6)


def test_a_stopped_arm_stays_in_the_family_with_p_1(make_study, cases):
    given = cases["T01"]["given"]
    study = make_study(
        {
            "half": given["half"],
            "baseline": given["baseline"],
            "double": [*given["baseline"][:4], Reason.DIVERGED],
        }
    )
    found = family(study)

    assert found["double"].p_holm == 1.0
    assert found["half"].p_holm == pytest.approx(cases["T01"]["expect"]["p_holm_m2"], abs=1e-9)


def test_an_arm_that_is_not_comparable_stays_in_the_family(make_study, cases):
    given = cases["T01"]["given"]
    study = make_study(
        {"half": given["half"], "baseline": given["baseline"], "double": given["half"]}
    )
    found = adjust_family(study, {"half": compare_with_baseline(study, "half")})

    assert list(found) == ["half"]
    assert found["half"].p_holm == pytest.approx(cases["T01"]["expect"]["p_holm_m2"], abs=1e-9)


@pytest.mark.parametrize(("closed", "p_holm"), [(True, 1.0), (False, None)])
def test_missing_pairs_count_as_p_1_once_the_study_is_closed(make_study, cases, closed, p_holm):
    given = cases["T01"]["given"]
    study = make_study(
        {"half": [*given["half"][:4], Reason.KILLED], "baseline": given["baseline"]},
        closed=closed,
    )
    half = family(study)["half"]

    assert (half.n, half.n_planned, half.is_partial) == (4, 5, True)
    assert half.p_holm == p_holm
    assert half.p < 0.05


@pytest.mark.parametrize(
    ("arm", "baseline", "differences_alike", "baseline_alike"),
    [
        ([1.585] * 3, [1.6] * 3, True, True),
        ([1.585, 1.685, 1.785], [1.6, 1.7, 1.8], True, False),
        ([1.6, 1.7, 1.8], [1.6, 1.7, 1.8], True, False),
        ([1.58, 1.59, 1.6], [1.6, 1.6, 1.6], False, True),
        ([1.58, 1.59, 1.6], [1.6, 1.61, 1.63], False, False),
    ],
)
def test_seeds_that_change_nothing_are_untestable(
    make_study, arm, baseline, differences_alike, baseline_alike
):
    half = family(make_study({"half": arm, "baseline": baseline}))["half"]

    assert half.differences_alike is differences_alike
    assert half.baseline_alike is baseline_alike
    assert half.is_testable is not (differences_alike or baseline_alike)
    assert (half.p_holm == 1.0) is not half.is_testable


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_pairs_are_untestable(make_study, n):
    half = family(make_study({"half": [1.5, 1.55][:n], "baseline": [1.6, 1.7][:n]}))["half"]

    assert half.p_holm == 1.0
    assert half.lower_in == n


def test_without_a_pair_there_is_no_number(make_study):
    half = family(make_study({"half": [None, None], "baseline": [1.6, 1.7]}))["half"]

    assert (half.n, half.mean, half.sd, half.p, half.resolution) == (0, None, None, None, None)
    assert half.paired_improvement is half.all_pairs_improvement is half.sign_flip_p is None


def test_stopped_trials_rank_last_and_missing_ones_do_not_rank(make_study):
    study = make_study(
        {
            "half": [1.5, Reason.DIVERGED, Reason.KILLED, Reason.DIVERGED],
            "baseline": [1.6, 1.7, 1.8, Reason.DIVERGED],
        }
    )
    half = compare_with_baseline(study, "half")

    assert half.paired_improvement == pytest.approx((1 + 0 + 0.5) / 3)
    assert half.all_pairs_improvement == pytest.approx((4 + 0.5 + 0.5) / 12)


def test_the_declared_order_of_arms_does_not_change_a_p_value(t01):
    turned = dataclasses.replace(t01, arms=t01.arms[::-1])

    assert family(turned)["half"] == family(t01)["half"]
