"""Which outcome follows from what the ranks said and how their processes ended."""

from __future__ import annotations

import signal

import pytest

from sweeper.records import Outcome, Reason
from sweeper.trial.rank_ending import Standing, outcome_of_ranks

LATE = 1000.0
"""Seconds after which nothing more is waited for."""


def said(reason, error=None):
    return Outcome(
        reason=Reason(reason), detail="a detail", evidence={} if error is None else {"error": error}
    )


COMPLETED = said("budget_reached")
STOPPED = said("diverged")
PREEMPTED = said("preempted")
FAILED = said("code_error", "ValueError")
LOST = said("device_error", "LostTouch")
RUNNING = (None, None)


def standings(*pairs):
    return [Standing(rank=rank, said=said, status=code) for rank, (said, code) in enumerate(pairs)]


def after(seconds, *pairs):
    outcome = outcome_of_ranks(standings(*pairs), quiet_seconds=seconds)
    return None if outcome is None else (outcome.reason, outcome.detail)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RUNNING, RUNNING),
        ((COMPLETED, None), RUNNING),
        (RUNNING, (COMPLETED, None)),
        (RUNNING, (COMPLETED, 0)),
    ],
    ids=str,
)
def test_as_long_as_a_rank_has_not_said_its_last_word_the_end_is_open(first, second):
    """Rank 0 saves while the others have left already; how long it takes does not matter."""
    assert after(LATE, first, second) is None


def test_when_all_have_said_their_last_word_they_have_a_while_to_leave():
    assert after(29.0, (COMPLETED, 0), (COMPLETED, None)) is None
    assert after(30.0, (COMPLETED, 0), (COMPLETED, None)) == (Reason.BUDGET_REACHED, "a detail")


@pytest.mark.parametrize("word", [COMPLETED, STOPPED, PREEMPTED])
def test_when_all_have_left_in_order_the_word_of_rank_0_is_the_outcome(word):
    assert outcome_of_ranks(standings((word, 0), (word, 0)), quiet_seconds=0.0) == word


def test_what_rank_0_finds_unsound_at_the_end_is_the_outcome():
    """The others have said by then that the budget was read."""
    assert after(0.0, (STOPPED, 0), (COMPLETED, 0)) == (Reason.DIVERGED, "a detail")


def test_an_error_counts_before_the_death_that_it_brought_about():
    """NCCL ends the process of a rank whose peer has failed."""
    assert after(0.0, (None, -signal.SIGABRT), (FAILED, None)) == (
        Reason.CODE_ERROR,
        "rank 1: a detail",
    )


def test_a_death_counts_before_the_loss_of_touch_that_it_brought_about():
    assert after(0.0, (LOST, 1), (None, -signal.SIGKILL)) == (
        Reason.KILLED,
        "rank 1: killed by SIGKILL, which sweeper did not send",
    )


def test_a_cause_of_lost_touch_is_waited_for_and_then_it_counts_itself():
    assert after(4.9, (LOST, 1), RUNNING) is None
    assert after(5.0, (LOST, 1), RUNNING) == (Reason.DEVICE_ERROR, "rank 0: a detail")


def test_a_rank_that_ended_in_order_while_others_went_on_is_an_error_in_the_code():
    assert after(5.0, RUNNING, (LOST, 1), (STOPPED, 0)) == (
        Reason.CODE_ERROR,
        "rank 2: ended with diverged while rank 1 went on",
    )


@pytest.mark.parametrize(
    ("word", "status", "expected"),
    [
        (None, 0, (Reason.CODE_ERROR, "rank 1: exited with status 0 and said nothing")),
        (None, 1, (Reason.CODE_ERROR, "rank 1: exited with status 1 and said nothing")),
        (COMPLETED, 1, (Reason.CODE_ERROR, "rank 1: exited with status 1 and said budget_reached")),
        (COMPLETED, -signal.SIGSEGV, (Reason.CRASHED, "rank 1: crashed with SIGSEGV")),
        (
            None,
            -signal.SIGTERM,
            (Reason.KILLED, "rank 1: killed by SIGTERM, which sweeper did not send"),
        ),
    ],
    ids=str,
)
def test_an_end_that_the_last_word_does_not_explain_counts_by_what_it_is(word, status, expected):
    assert after(0.0, RUNNING, (word, status)) == expected


def test_the_evidence_keeps_the_traceback_and_names_the_rank():
    failed = Outcome(
        reason=Reason.CODE_ERROR, detail="x", evidence={"error": "ValueError", "traceback": "y"}
    )

    outcome = outcome_of_ranks(standings(RUNNING, (failed, None)), quiet_seconds=0.0)

    assert outcome.evidence == {"error": "ValueError", "traceback": "y", "rank": "1"}
