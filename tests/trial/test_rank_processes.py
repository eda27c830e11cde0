"""Ranks as processes, followed to their end; programs that act out what a test says are the ranks.

What real ranks compute is in `test_rank.py`.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from sweeper.records import Notice, Phase, PhaseBegun, Reason
from sweeper.training.phases import Phases
from sweeper.trial.rank_processes import carry_out_by_ranks

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in_rank.py")))

END_COMPLETED = ["end", "budget_reached"]


@dataclass(frozen=True)
class Followed:
    outcome: object
    told: list
    seconds: float


@pytest.fixture
def follow(bench, attempt):
    """Follows ranks that act as told; afterwards no process of the attempt may be left."""
    spec = bench.spec()
    folder = attempt(spec)

    def to_the_end(*acts, interrupted=lambda: False, command=STAND_IN, emit=None):
        (folder.path / "acts.json").write_text(json.dumps(acts), encoding="utf-8")
        told = []
        seconds = itertools.count()
        phases = Phases(told.append, lambda: float(next(seconds)))
        phases.begin(Phase.LOADING)
        began = time.monotonic()
        outcome = carry_out_by_ranks(
            spec.model_copy(update={"ranks": len(acts)}),
            folder,
            emit=emit or told.append,
            interrupted=interrupted,
            phases=phases,
            command=command,
        )
        return Followed(outcome, told, time.monotonic() - began)

    yield to_the_end
    assert [process for process in psutil.process_iter() if is_of(process, folder.path)] == []


def is_of(process, folder):
    try:
        return str(folder) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_rank_0_tells_is_passed_on_in_order_and_its_word_is_the_outcome(follow):
    followed = follow(
        [["tell", "one"], ["tell", "two"], END_COMPLETED],
        [END_COMPLETED],
    )

    assert followed.told[1:] == [Notice(message="one"), Notice(message="two")]
    assert followed.outcome.reason is Reason.BUDGET_REACHED
    assert followed.outcome.detail == "so it is"


def test_seconds_of_phases_are_counted_from_before_the_ranks_began(follow):
    followed = follow(
        [["turn", "loading"], ["turn", "training"], ["turn", "ending"], END_COMPLETED],
        [END_COMPLETED],
    )

    assert followed.told == [
        PhaseBegun(phase=Phase.LOADING, seconds={}),
        PhaseBegun(phase=Phase.TRAINING, seconds={"loading": 1.0}),
        PhaseBegun(phase=Phase.ENDING, seconds={"loading": 1.0, "training": 1.0}),
    ]


def test_what_libraries_print_is_no_record(follow, capfd):
    followed = follow([["print", "a banner"], END_COMPLETED], [END_COMPLETED])

    assert followed.outcome.reason is Reason.BUDGET_REACHED
    assert "a banner" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("number", "reason", "detail"),
    [
        (signal.SIGKILL, Reason.KILLED, "rank 1: killed by SIGKILL, which sweeper did not send"),
        (signal.SIGSEGV, Reason.CRASHED, "rank 1: crashed with SIGSEGV"),
    ],
)
def test_the_death_of_one_rank_ends_the_attempt_at_once_with_its_reason(
    number, reason, detail, follow
):
    followed = follow([["hang"]], [["die of", number]], [["hang"]])

    assert (followed.outcome.reason, followed.outcome.detail) == (reason, detail)
    assert followed.outcome.evidence == {"rank": "1", "signal": signal.Signals(number).name}
    assert followed.seconds < 5


def test_the_death_of_rank_0_ends_it_too_and_what_it_told_before_is_kept(follow):
    followed = follow(
        [["tell", "one"], ["say half a line"], ["die of", signal.SIGKILL]], [["hang"]]
    )

    assert followed.told[1:] == [Notice(message="one")]
    assert followed.outcome.detail == "rank 0: killed by SIGKILL, which sweeper did not send"


def test_an_exception_of_one_rank_is_the_reason_though_another_has_lost_touch(follow):
    followed = follow(
        [["say", "device_error", "LostTouch"], ["hang"]],
        [["wait for signal 15"]],
        [["end", "code_error", "ZeroDivisionError"]],
    )

    assert followed.outcome.reason is Reason.CODE_ERROR
    assert followed.outcome.detail == "rank 2: so it is"
    assert followed.outcome.evidence == {
        "error": "ZeroDivisionError",
        "traceback": "...",
        "rank": "2",
    }
    assert followed.seconds < 5


def test_what_a_rank_has_started_ends_with_it(follow):
    """The rank says that something went wrong and does not leave."""
    followed = follow([["hang"]], [["have a child"], ["say", "code_error", "ValueError"], ["hang"]])

    assert followed.outcome.reason is Reason.CODE_ERROR


def test_a_rank_that_leaves_without_a_word_is_an_error_in_the_code(follow):
    followed = follow([["hang"]], [["leave", 3]])

    assert followed.outcome.reason is Reason.CODE_ERROR
    assert followed.outcome.detail == "rank 1: exited with status 3 and said nothing"


SLOW_TO_START = "import os, sys, time; time.sleep(0.7); os.execv(sys.argv[1], sys.argv[1:])"
LATE = (sys.executable, "-c", SLOW_TO_START, *STAND_IN)


def test_a_wish_to_end_that_comes_before_the_ranks_can_hear_it_is_kept(follow):
    """It is passed on at the first look, and would end a process that has not taken it over."""
    acts = [["wait for signal 15"], ["end", "preempted"]]

    followed = follow(acts, acts, interrupted=lambda: True, command=LATE)

    assert followed.outcome.reason is Reason.PREEMPTED


def test_when_a_record_cannot_be_written_no_rank_is_left(follow):
    def full(_record):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        follow([["tell", "one"], ["hang"]], [["hang"]], emit=full)


def test_a_rank_that_cannot_be_started_leaves_none_of_the_others(follow):
    with pytest.raises(FileNotFoundError):
        follow([["hang"]], [["hang"]], command=("/nowhere/python",))


def test_signal_15_reaches_this_process_again_once_the_ranks_run(follow):
    follow([END_COMPLETED], [END_COMPLETED])

    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, set())
