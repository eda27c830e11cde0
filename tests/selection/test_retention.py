from __future__ import annotations

import math

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.retention import RetentionVerdict, guard_retention

FIVE = {"half": [1.59, 1.58, 1.60, 1.57, 1.56], "baseline": [1.60, 1.61, 1.62, 1.60, 1.59]}
START = [3.10, 3.12, 3.08, 3.11, 3.09]


def guarded(study, retain, differences):
    baseline = START[: len(differences)]
    arm = [None if d is None else loss + d for loss, d in zip(baseline, differences, strict=True)]
    return guard_retention(retain(study, {"half": arm, "baseline": baseline}), "half")


@pytest.mark.parametrize(
    ("case", "verdict", "sentence"),
    [
        (
            "pass",
            RetentionVerdict.PASSED,
            (
                "half passes the retention guard: its retention loss is at most 0.0098 nats above "
                "baseline's (one-sided 95 % bound over 5 seeds, margin 0.02)."
            ),
        ),
        (
            "inconclusive",
            RetentionVerdict.INCONCLUSIVE,
            (
                "half is not shown to pass the retention guard: its retention loss may be up to "
                "0.027 nats above baseline's (one-sided 95 % bound over 5 seeds, margin 0.02)."
            ),
        ),
        (
            "fail",
            RetentionVerdict.FAILED,
            (
                "half fails the retention guard: its retention loss is at least 0.039 nats above "
                "baseline's (one-sided 95 % bound over 5 seeds, margin 0.02)."
            ),
        ),
    ],
)
def test_the_three_verdicts_of_case_t10(make_study, retain, cases, case, verdict, sentence):
    found = guarded(make_study(FIVE), retain, cases["T10"]["given"][case])
    expected = cases["T10"]["expect"][case]

    assert found.verdict is verdict
    assert found.sentence == sentence
    assert found.mean == pytest.approx(expected["mean"], abs=1e-9)
    assert found.upper == pytest.approx(expected.get("upper", found.upper), abs=1e-9)
    assert found.lower == pytest.approx(expected.get("lower", found.lower), abs=1e-9)
    assert found.n == 5


def test_the_absolute_loss_of_ability_is_given_beside_the_relative_one(make_study, retain, cases):
    """Baseline ends 0.1 above the start of 3.0 on average, and half 0.007 above that."""
    found = guarded(make_study(FIVE), retain, cases["T10"]["given"]["pass"])

    assert found.above_initial == pytest.approx(0.107)


def test_without_a_retention_split_nothing_is_blocked(make_study):
    found = guard_retention(make_study(FIVE), "half")

    assert found.verdict is RetentionVerdict.NOT_MEASURED
    assert found.allows_selection
    assert found.sentence == "Retention was not measured: the study has no retention split."
    assert found.mean is found.upper is found.lower is found.above_initial is None


def test_a_stopped_trial_fails_the_guard(make_study, retain):
    study = make_study(
        {"half": [1.5, 1.5, 1.5, Reason.DIVERGED], "baseline": [1.60, 1.61, 1.62, 1.60]}
    )
    found = guarded(study, retain, [0.001, 0.002, 0.0015, None])

    assert found.verdict is RetentionVerdict.FAILED
    assert not found.allows_selection


def test_a_ruined_model_is_not_dropped_from_the_guard(make_study, retain):
    found = guarded(make_study(FIVE), retain, [0.001, 0.002, 0.0015, 0.001, math.nan])

    assert found.verdict is RetentionVerdict.FAILED
    assert found.n == 4


@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([0.001, 0.002], "2 seeds cannot show it"),
        ([0.001], "1 seed cannot show it"),
        ([0.0, 0.0, 0.0], "all seeds gave the same difference"),
    ],
)
def test_too_little_is_not_a_pass(make_study, retain, differences, reason):
    losses = {arm: values[: len(differences)] for arm, values in FIVE.items()}
    found = guarded(make_study(losses), retain, differences)

    assert found.verdict is RetentionVerdict.INCONCLUSIVE
    assert not found.allows_selection
    assert found.sentence == f"half is not shown to pass the retention guard: {reason}."


def test_a_loss_that_was_not_recorded_is_not_a_pass(make_study, retain):
    found = guarded(make_study(FIVE), retain, [0.001, 0.002, 0.0015, 0.001, None])

    assert found.verdict is RetentionVerdict.INCONCLUSIVE
    assert found.sentence == (
        "half is not shown to pass the retention guard: a completed trial has no retention loss on "
        "record."
    )


def test_of_an_arm_that_is_not_comparable_no_retention_difference_is_told(
    make_study, retain, alter
):
    kept = dict.fromkeys(FIVE, START)
    study = alter(retain(make_study(FIVE), kept), "half", 0, initial_digest="other")
    (half,) = compare(study).arms

    found = half.retention
    assert (found.n, found.mean, found.lower, found.upper) == (0, None, None, None)
    assert found.sentence == (
        "half is not shown to pass the retention guard: it is not comparable with baseline."
    )


def test_a_missing_trial_is_no_pair(make_study, retain):
    study = make_study({"half": [1.5, 1.5, Reason.KILLED, 1.5], "baseline": [1.6, 1.61, 1.62, 1.6]})
    found = guarded(study, retain, [0.001, 0.002, 0.9, 0.0015])

    assert (found.n, found.verdict) == (3, RetentionVerdict.PASSED)


def test_an_arm_that_keeps_more_than_the_baseline_is_said_to_be_below_it(make_study, retain):
    """Differences of -0.30, -0.31, -0.32: mean -0.31, upper bound -0.31 + 2.920 x 0.00577."""
    found = guarded(
        make_study({"half": [1.5] * 3, "baseline": [1.6, 1.61, 1.62]}),
        retain,
        [-0.30, -0.31, -0.32],
    )

    assert found.sentence == (
        "half passes the retention guard: its retention loss is at least 0.293 nats below "
        "baseline's (one-sided 95 % bound over 3 seeds, margin 0.02)."
    )
