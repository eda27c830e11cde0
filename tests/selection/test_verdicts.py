from __future__ import annotations

import math

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.verdicts import VerdictKind

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]


def shifted(differences, sign=1):
    pairs = zip(BASELINE[: len(differences)], differences, strict=True)
    return [loss + sign * d for loss, d in pairs]


def verdict(study, arm="half"):
    return next(found.verdict for found in compare(study).arms if found.arm == arm)


def label(make_study, half, baseline=None, **rules):
    """Of half, in a family of two."""
    baseline = baseline or BASELINE[: len(half)]
    double = [Reason.DIVERGED] * len(half)
    return verdict(
        make_study({"half": half, "baseline": baseline, "double": double}, **rules)
    ).label


def test_case_t01_is_better(make_study, cases):
    given = cases["T01"]["given"]

    assert label(make_study, given["half"], given["baseline"]) == cases["T01"]["expect"]["verdict"]


def test_case_t02_is_no_claim(make_study, cases):
    given = cases["T02"]["given"]

    assert label(make_study, given["half"], given["baseline"]) == cases["T02"]["expect"]["verdict"]


@pytest.mark.parametrize(("given", "expected"), [("d_mixed", "mixed"), ("d_same", "same")])
def test_case_t03_is_nothing_or_provisional(make_study, cases, given, expected):
    differences = cases["T03"]["given"][given]

    assert label(make_study, shifted(differences)) == cases["T03"]["expect"][expected]["verdict"]


def test_case_t04_is_unstable(make_study, cases):
    double = [math.nan, 1.70, math.inf]
    study = make_study({"double": double, "baseline": cases["T04"]["given"]["baseline"]})

    assert verdict(study, "double").label == cases["T04"]["expect"]["verdict"]


def test_case_t13_equal_differences_are_no_claim(make_study, cases):
    given = cases["T13"]["given"]["zero_spread"]

    assert label(make_study, given["arm"], given["base"]) == cases["T13"]["expect"]["zero_spread"]


@pytest.mark.parametrize(
    ("given", "expected"), [("equivalence_d", "equivalence"), ("tiny_d", "tiny")]
)
def test_case_t13_small_differences(make_study, cases, given, expected):
    half = shifted(cases["T13"]["given"][given])

    assert label(make_study, half) == cases["T13"]["expect"][expected]


def test_case_t13_a_failed_baseline_is_unstable(make_study, cases):
    baseline = [Reason.DIVERGED, *cases["T13"]["given"]["baseline_with_failure"][1:]]

    assert label(make_study, HALF, baseline) == cases["T13"]["expect"]["baseline_failed"]


@pytest.mark.parametrize(
    ("sign", "n", "kind"),
    [
        (1, 5, "better"),
        (-1, 5, "worse"),
        (1, 4, "better:provisional"),
        (-1, 4, "worse:provisional"),
    ],
)
def test_fewer_than_five_seeds_are_provisional(make_study, sign, n, kind):
    half = shifted([-0.0120, -0.0118, -0.0122, -0.0119, -0.0121][:n], sign)
    found = verdict(make_study({"half": half, "baseline": BASELINE[:n]}))

    assert found.label == kind
    assert found.is_provisional is (n < 5)


def test_the_margin_decides_between_better_and_too_small(make_study):
    assert label(make_study, HALF, smallest_difference=0.0105) == "better"
    assert label(make_study, HALF, smallest_difference=0.0107) == "reliable_but_below_delta"


def test_a_reliable_difference_is_said_before_equivalence(make_study):
    """Both hold: the 90 % interval of these differences lies within the margin as well."""
    differences = [-0.002, -0.0025, -0.003, -0.002, -0.0015]

    assert label(make_study, shifted(differences)) == "reliable_but_below_delta"


@pytest.mark.parametrize(
    ("half", "closed", "expected"),
    [
        ([1.59, 1.589, Reason.KILLED, 1.597, 1.585], True, "incomplete:1/5"),
        ([1.59, 1.589, Reason.KILLED, 1.597, 1.585], False, "incomplete:1/5"),
        ([1.59, None, None, None, None], False, "incomplete:4/5"),
        ([1.59, Reason.WALL_CLOCK, Reason.CRASHED, 1.5, Reason.DEADLINE], True, "incomplete:3/5"),
        ([1.59, Reason.DIVERGED, Reason.KILLED, 1.597, 1.585], True, "unstable:1/5"),
    ],
)
def test_missing_pairs_are_counted_and_marked_partial(make_study, half, closed, expected):
    found = verdict(make_study({"half": half, "baseline": BASELINE}, closed=closed))

    assert found.label == expected
    assert found.is_partial


def test_a_missing_baseline_leaves_every_pair_of_its_seed_missing(make_study):
    study = make_study({"half": HALF, "baseline": [*BASELINE[:4], Reason.KILLED], "double": HALF})

    assert [found.verdict.label for found in compare(study).arms] == ["incomplete:1/5"] * 2


def test_a_broken_gate_comes_before_everything(make_study, alter):
    study = make_study(
        {"half": [*HALF[:4], Reason.DIVERGED], "baseline": [Reason.DIVERGED, *BASELINE[1:]]}
    )
    found = verdict(alter(study, "half", 2, initial_digest="other"))

    assert found.kind is VerdictKind.NOT_COMPARABLE
    assert not found.is_partial


def test_a_failed_baseline_comes_before_a_failed_arm(make_study):
    study = make_study(
        {"half": [*HALF[:4], Reason.DIVERGED], "baseline": [Reason.DIVERGED, *BASELINE[1:]]}
    )

    assert verdict(study).kind is VerdictKind.BASELINE_UNSTABLE


def test_the_first_arms_broken_gate_leaves_the_other_arms_alone(make_study, alter):
    study = make_study({"half": HALF, "baseline": BASELINE, "double": HALF})
    found = compare(alter(study, "double", 2, initial_digest="other"))

    assert [arm.verdict.label for arm in found.arms] == ["better", "not_comparable"]
    assert found.arms[1].difference is None
