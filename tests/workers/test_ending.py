"""The judgement of an ending as a table: what was said, what was seen, what it is called."""

from __future__ import annotations

import math
import signal
from datetime import UTC, datetime

import pytest

from sweeper.records import Evaluation, Notice, Outcome, Reason, Resumed, Update
from sweeper.workers.ending import Statement, judge, listen
from sweeper.workers.supervision import Cause, Supervision

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def seen(**changes):
    """A process that exited with 0 by itself."""
    plain = {
        "cause": Cause.EXITED,
        "pid": 7,
        "started_at": 1.0,
        "exit_status": 0,
        "signal": None,
        "wall_seconds": 12.3456,
        "peak_memory_bytes": 1000,
        "supervisor_pid": 8,
        "supervisor_started_at": 1.0,
        "began_at": NOON,
        "ended_at": NOON,
    }
    return Supervision(**plain | changes)


def said(reason, **changes):
    """A trial that read its ten tokens, scored a finite loss, and said this last."""
    plain = {
        "outcome": None if reason is None else Outcome(reason=reason, detail="its own words"),
        "validation_loss": 2.0,
        "target_tokens_read": 10,
        "window": 3,
        "last_finite_loss": 2.5,
    }
    return Statement(**plain | changes)


def judged(statement, supervision, asked=None):
    return judge(statement, supervision, planned_target_tokens=10, asked=asked)


@pytest.mark.parametrize("reason", [Reason.BUDGET_REACHED, Reason.DIVERGED, Reason.NO_UPDATES])
def test_an_orderly_end_is_what_the_trial_says(reason):
    outcome = judged(said(reason), seen())

    assert (outcome.reason, outcome.detail) == (reason, "its own words")


@pytest.mark.parametrize(
    "cause", [Cause.WALL_CLOCK, Cause.STOPPED, Cause.COORDINATOR_LOST, Cause.HUNG]
)
def test_a_result_that_came_before_the_request_took_effect_counts(cause):
    assert judged(said(Reason.BUDGET_REACHED), seen(cause=cause)).reason is Reason.BUDGET_REACHED


@pytest.mark.parametrize(
    ("loss", "read", "reason"),
    [
        (math.nan, 10, Reason.RESULT_MISSING),
        (math.inf, 10, Reason.RESULT_MISSING),
        (None, 10, Reason.RESULT_MISSING),
        (2.0, 9, Reason.BUDGET_MISMATCH),
        (2.0, 11, Reason.BUDGET_MISMATCH),
    ],
)
def test_a_completion_that_its_records_deny_is_a_failure(loss, read, reason):
    claim = said(Reason.BUDGET_REACHED, validation_loss=loss, target_tokens_read=read)

    assert judged(claim, seen()).reason is reason


def test_a_stopped_trial_needs_no_finite_loss_and_no_full_budget():
    stopped = said(Reason.NONFINITE_LOSS, validation_loss=math.nan, target_tokens_read=4)

    assert judged(stopped, seen()).reason is Reason.NONFINITE_LOSS


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.WALL_CLOCK, Reason.WALL_CLOCK),
        (Cause.HOST_MEMORY, Reason.HOST_MEMORY),
        (Cause.DEVICE_MEMORY, Reason.DEVICE_MEMORY),
        (Cause.DISK, Reason.DISK),
        (Cause.HUNG, Reason.HUNG),
        (Cause.STOPPED, Reason.PREEMPTED),
        (Cause.KILLED, Reason.KILLED),
        (Cause.COORDINATOR_LOST, Reason.WORKER_LOST),
        (Cause.SUPERVISOR_LOST, Reason.WORKER_LOST),
        (Cause.NOT_STARTED, Reason.WORKER_LOST),
    ],
)
@pytest.mark.parametrize(
    ("last_word", "end"),
    [
        (None, {"exit_status": None, "signal": signal.SIGKILL}),
        (None, {"exit_status": None, "signal": signal.SIGSEGV}),
        (None, {"exit_status": None, "signal": None}),
        (Reason.PREEMPTED, {"exit_status": 0}),
        (Reason.CODE_ERROR, {"exit_status": 1}),
    ],
)
def test_an_end_that_was_brought_about_counts_by_its_cause(cause, reason, last_word, end):
    supervision = seen(cause=cause, detail="the numbers", **end)

    outcome = judged(said(last_word), supervision)

    assert (outcome.reason, outcome.detail) == (reason, "the numbers")


@pytest.mark.parametrize("asked", [Reason.USER_CANCELLED, Reason.DEADLINE])
@pytest.mark.parametrize("cause", [Cause.STOPPED, Cause.KILLED])
def test_an_end_that_the_coordinator_asked_for_has_its_reason(cause, asked):
    outcome = judged(said(Reason.PREEMPTED), seen(cause=cause), asked)

    assert outcome.reason is asked


@pytest.mark.parametrize("cause", [Cause.WALL_CLOCK, Cause.HUNG, Cause.SUPERVISOR_LOST])
def test_a_limit_that_fired_first_is_not_called_a_cancellation(cause):
    assert judged(said(None), seen(cause=cause), Reason.USER_CANCELLED).reason is not (
        Reason.USER_CANCELLED
    )


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, Reason.KILLED),
        (signal.SIGTERM, Reason.KILLED),
        (signal.SIGINT, Reason.KILLED),
        (signal.SIGRTMIN + 3, Reason.KILLED),
        (signal.SIGSEGV, Reason.CRASHED),
        (signal.SIGBUS, Reason.CRASHED),
        (signal.SIGABRT, Reason.CRASHED),
    ],
)
@pytest.mark.parametrize("last_word", [None, Reason.BUDGET_REACHED])
def test_a_signal_from_outside_counts_by_its_number(number, reason, last_word):
    supervision = seen(exit_status=None, signal=int(number))

    assert judged(said(last_word), supervision).reason is reason


def test_host_memory_is_suspected_only_where_the_kernel_counted_a_kill():
    killed = {"exit_status": None, "signal": int(signal.SIGKILL)}

    suspected = judged(said(None), seen(**killed, out_of_memory_kills=1))
    unknown = judged(said(None), seen(**killed, out_of_memory_kills=0))

    assert suspected.reason is unknown.reason is Reason.KILLED
    assert "for want of memory" in suspected.detail
    assert unknown.detail == "killed by SIGKILL, which sweeper did not send"


def test_it_is_suspected_too_where_one_rank_of_a_trial_was_killed():
    """The trial's own process lives on and says so."""
    last_word = Outcome(
        reason=Reason.KILLED,
        detail="rank 1: killed by SIGKILL, which sweeper did not send",
        evidence={"signal": "SIGKILL", "rank": "1"},
    )
    supervision = seen(exit_status=1, out_of_memory_kills=1)

    outcome = judged(said(Reason.KILLED, outcome=last_word), supervision)

    assert outcome.reason is Reason.KILLED
    assert outcome.detail.startswith("rank 1: killed by SIGKILL, which sweeper did not send; the k")
    assert outcome.evidence["rank"] == "1"


@pytest.mark.parametrize(
    ("last_word", "status", "reason"),
    [
        (None, 0, Reason.RESULT_MISSING),
        (None, 3, Reason.CODE_ERROR),
        (None, 74, Reason.DISK),
        (Reason.PREEMPTED, 0, Reason.PREEMPTED),
        (Reason.CODE_ERROR, 1, Reason.CODE_ERROR),
        (Reason.DEVICE_MEMORY, 1, Reason.DEVICE_MEMORY),
        (Reason.DATA_ERROR, 1, Reason.DATA_ERROR),
        (Reason.BUDGET_REACHED, 3, Reason.CODE_ERROR),
        (Reason.DIVERGED, 3, Reason.CODE_ERROR),
    ],
)
def test_a_process_that_exited_counts_by_status_and_last_word(last_word, status, reason):
    assert judged(said(last_word), seen(exit_status=status)).reason is reason


@pytest.mark.parametrize(
    ("crowding", "reason", "detail"),
    [
        (None, Reason.DEVICE_MEMORY, "its own words"),
        ("others hold 7", Reason.FOREIGN_MEMORY, "its own words; others hold 7"),
    ],
)
def test_a_want_of_device_memory_is_the_machines_doing_where_others_hold_some(
    crowding, reason, detail
):
    outcome = judged(said(Reason.DEVICE_MEMORY), seen(exit_status=1, crowding=crowding))

    assert (outcome.reason, outcome.detail) == (reason, detail)


def test_others_on_the_device_are_no_excuse_for_another_ending():
    supervision = seen(exit_status=1, crowding="others hold 7")

    assert judged(said(Reason.CODE_ERROR), supervision).reason is Reason.CODE_ERROR


@pytest.mark.parametrize(
    ("last_word", "status", "said_first"),
    [
        (None, 74, "the disk was too full to write its events"),
        (Reason.DISK, 1, "its own words"),
    ],
)
def test_a_full_disk_is_told_with_what_is_free_and_what_is_needed(last_word, status, said_first):
    supervision = seen(
        exit_status=status, disk_bytes=300, free_disk_bytes=20, needed_disk_bytes=100
    )

    outcome = judged(said(last_word), supervision)

    assert outcome.reason is Reason.DISK
    assert outcome.detail == (
        f"{said_first}; 20 bytes are free, the attempt holds 300; "
        "a checkpoint and the weights need at least 100"
    )
    assert outcome.evidence["free_disk_bytes"] == "20"
    assert outcome.evidence["needed_disk_bytes"] == "100"


def test_a_full_disk_that_nobody_measured_is_told_without_figures():
    outcome = judged(said(None), seen(exit_status=74))

    assert outcome.detail == "the disk was too full to write its events"


def test_the_disk_is_no_evidence_of_another_ending():
    outcome = judged(said(Reason.CODE_ERROR), seen(exit_status=1, disk_bytes=3, free_disk_bytes=2))

    assert "free_disk_bytes" not in outcome.evidence


def test_the_evidence_holds_what_was_seen_and_what_the_trial_added():
    outcome = Outcome(reason=Reason.CODE_ERROR, detail="x", evidence={"traceback": "Traceback …"})
    supervision = seen(
        exit_status=1, stderr_tail="the log's end", leftovers=2, peak_device_memory_bytes=5
    )

    evidence = judged(said(None, outcome=outcome), supervision).evidence

    assert evidence == {
        "cause": "exited",
        "exit_status": "1",
        "window": "3",
        "last_finite_loss": "2.5",
        "peak_memory_bytes": "1000",
        "peak_device_memory_bytes": "5",
        "wall_seconds": "12.346",
        "leftovers": "2",
        "stderr_tail": "the log's end",
        "traceback": "Traceback …",
    }


def test_the_log_of_a_trial_that_did_its_work_is_no_evidence():
    outcome = judged(said(Reason.BUDGET_REACHED), seen(stderr_tail="Loading weights"))

    assert "stderr_tail" not in outcome.evidence


def test_a_statement_is_the_last_of_each_kind_of_record():
    update = dict.fromkeys(Update.__dataclass_fields__, 0)
    evaluation = dict.fromkeys(Evaluation.__dataclass_fields__, 0)
    last = Outcome(reason=Reason.NONFINITE_LOSS, detail="x")

    statement = listen(
        [
            Evaluation(**evaluation | {"split": "validation", "loss": 3.0}),
            Update(**update | {"window": 1, "target_tokens_read": 5, "loss": 2.5}),
            Notice(message="a word"),
            Evaluation(**evaluation | {"split": "validation", "loss": 2.0, "window": 1}),
            Evaluation(**evaluation | {"split": "retention", "loss": 9.0, "window": 1}),
            Update(**update | {"window": 2, "target_tokens_read": 9, "loss": math.nan}),
            last,
        ]
    )

    assert statement == Statement(
        outcome=last,
        validation_loss=2.0,
        target_tokens_read=9,
        window=2,
        last_finite_loss=2.5,
    )


def test_a_trial_that_goes_on_after_its_last_window_has_read_what_was_read_before():
    """Nothing was left but the evaluation at the end."""
    evaluation = dict.fromkeys(Evaluation.__dataclass_fields__, 0)
    at_the_end = {"split": "validation", "loss": 2.0, "window": 4, "target_tokens_read": 10}
    done = Outcome(reason=Reason.BUDGET_REACHED, detail="its own words")

    statement = listen(
        [
            Resumed(after_window=4, checkpoint="1/checkpoints/00000004", sha256="c0"),
            Evaluation(**evaluation | at_the_end),
            done,
        ]
    )

    assert (statement.target_tokens_read, statement.window) == (10, 4)
    assert judged(statement, seen()).reason is Reason.BUDGET_REACHED


def test_a_trial_that_was_killed_right_after_going_on_stood_at_its_checkpoint():
    resumed = Resumed(after_window=4, checkpoint="1/checkpoints/00000004", sha256="c0")

    assert listen([resumed]).window == 4


def test_a_trial_that_said_nothing_has_an_empty_statement():
    assert listen([]) == Statement()
