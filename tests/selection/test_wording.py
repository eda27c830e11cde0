from __future__ import annotations

import pytest

from sweeper.records import OUTCOME_OF, OutcomeKind, Reason
from sweeper.selection import wording
from sweeper.selection.statistics import Interval


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-0.0106, 0.001288, "-0.0106"),
        (-0.003, 0.00404, "-0.003"),
        (0.0220004, 0.000255, "0.02200"),
        (0.00299, 0.00299, "0.0030"),
        (0.0031, 0.0031, "0.003"),
        (-0.00001, 0.0013, "0.0000"),
        (12.3, 20.0, "12"),
        (0.012, None, "0.012"),
        (0.0120001, 0.0, "0.012"),
        (1.5, float("inf"), "1.5"),
    ],
)
def test_an_amount_has_the_precision_of_its_error(value, error, text):
    assert wording.amount(value, error) == text


@pytest.mark.parametrize(
    ("value", "text"), [(-0.0106, "-0.0106"), (0.02, "+0.0200"), (-1e-17, "+0.0000")]
)
def test_a_difference_that_is_next_to_nothing_has_no_minus(value, text):
    assert wording.signed(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.020389, 0.014389, "-0.020 to 0.014"),
        (0.000443, 0.020357, "0.0004 to 0.0204"),
        (0.0, 0.008, "0.000 to 0.008"),
    ],
)
def test_an_end_of_an_interval_that_is_not_0_does_not_read_as_0(low, high, text):
    assert wording.interval_text(Interval(low, high), 0.004) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.00238, "p = 0.0024"), (0.0404, "p = 0.04"), (1.0, "p = 1"), (0.00004, "p < 0.0001")],
)
def test_a_p_value_is_never_said_to_be_zero(p, text):
    assert wording.p_text(p) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_a_list_reads_as_english(words, text):
    assert wording.listing(words) == text


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words_of_its_own(reason):
    others = [wording.ended(other) for other in Reason if other is not reason]

    assert wording.ended(reason) not in others


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.DIVERGED])
def test_no_other_reason_reads_as_divergence(reason):
    assert "diverged" not in wording.ended_with_blame(reason)


@pytest.mark.parametrize(
    "reason",
    [
        reason
        for reason, outcome in OUTCOME_OF.items()
        if outcome not in {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}
    ],
)
def test_what_is_not_the_arms_doing_is_said_not_to_be(reason):
    assert wording.ended_with_blame(reason).endswith("no finding about the arm")


def test_a_stopped_trial_is_the_arms_own_doing():
    assert wording.ended_with_blame(Reason.DIVERGED) == "diverged"
    assert wording.ended_with_blame(None) == "has not been run to an end"
