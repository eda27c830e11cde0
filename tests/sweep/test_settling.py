"""What whoever asks how a study stands puts on record of a coordinator that died."""

import os
import signal
from datetime import UTC, datetime

import pytest
from waiting import within

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.settling import settle_leftovers
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.liveness import birth, host_name, started_at

GONE = Owner(worker="local", host=host_name(), pid=2**22 + 1, started_at="1.0")
ELSEWHERE = Owner(worker="local", host="another-host", pid=1, started_at="1.0")


@pytest.fixture
def settle(recorder):
    """Settles a study and returns what was said."""

    def settled(study):
        observer = recorder()
        settle_leftovers(study.file, study.folder, observer=observer)
        return observer.messages

    return settled


def test_an_attempt_whose_owner_is_dead_is_lost_with_evidence_and_waits_to_be_resumed(
    founded, store, settle, optuna_trials
):
    store.claim(GONE, "cpu 1")

    said = settle(founded)

    assert said == [
        f"baseline/0: attempt 1, left by process {GONE.pid}, ended as lost (worker_lost)"
    ]
    (attempt,) = store.attempts()
    assert (attempt["outcome"], attempt["reason"]) == ("lost", "worker_lost")
    assert attempt["ended_at"] is not None
    assert attempt["evidence"] != "{}"
    assert store.cells()[0].status == "waiting"
    assert optuna_trials(founded)["baseline/0"].state.name == "RUNNING"


def test_an_end_for_good_is_told_to_optuna_too(founded, store, settle, optuna_trials):
    """The study takes one loss without progress; this is the second."""
    first = store.claim(GONE, "cpu 1")
    lost = Outcome(reason=Reason.WORKER_LOST, detail="", evidence={})
    store.finish(first, lost, max_resumes=1)
    store.claim(GONE, "cpu 1", cell="baseline/0")

    settle(founded)

    assert store.cells()[0].outcome == "lost"
    assert optuna_trials(founded)["baseline/0"].state.name == "FAIL"


def test_while_the_study_is_run_nothing_is_settled(founded, store, settle):
    store.claim(GONE, "cpu 1")

    with only_coordinator(founded.folder):
        assert settle(founded) == []

    assert store.attempts()[0]["ended_at"] is None


def test_where_the_run_folder_cannot_be_written_nothing_is_settled(founded, store, settle):
    store.claim(GONE, "cpu 1")
    founded.folder.coordinator.unlink()
    founded.folder.coordinator.symlink_to("/dev/full")

    assert settle(founded) == []
    assert store.attempts()[0]["ended_at"] is None


def test_a_database_that_cannot_be_used_is_left_as_it_is(founded, settle):
    founded.folder.database.write_bytes(b"not a database, and of some length" * 100)

    assert settle(founded) == []


def alive():
    parent = os.getppid()
    return Owner(worker="local", host=host_name(), pid=parent, started_at=birth(parent))


@pytest.mark.parametrize(
    ("owner", "seconds"),
    [(alive, 300.0), (lambda: ELSEWHERE, 300.0), (lambda: ELSEWHERE, -3600.0)],
    ids=["alive", "of another host", "of another host, overdue"],
)
def test_owners_that_are_not_known_to_be_dead_are_left_alone(
    founded, store, settle, owner, seconds
):
    store.claim(owner(), "cpu 1", lease_seconds=seconds)

    assert settle(founded) == []
    assert store.attempts()[0]["ended_at"] is None


def test_a_job_of_an_engine_outlives_its_coordinator(founded, store, settle):
    attempt = AttemptFolder(founded.folder.path / store.claim(GONE, "cpu 1").folder)
    attempt.path.mkdir(parents=True)
    attempt.order.write_text("{}")

    assert settle(founded) == []
    assert store.attempts()[0]["ended_at"] is None


def test_an_attempt_that_its_supervisor_is_ending_is_not_waited_for(founded, store, settle):
    attempt = AttemptFolder(founded.folder.path / store.claim(GONE, "cpu 1").folder)
    attempt.path.mkdir(parents=True)
    now = datetime.now(UTC)
    Heartbeat(
        at=now,
        began_at=now,
        pid=2**22 + 2,
        started_at=1.0,
        supervisor_pid=os.getpid(),
        supervisor_started_at=started_at(os.getpid()),
        wall_seconds=1.0,
        memory_bytes=1,
        peak_memory_bytes=1,
    ).write(attempt.heartbeat)

    assert settle(founded) == []
    assert store.attempts()[0]["ended_at"] is None


@pytest.mark.slow
def test_what_a_killed_coordinator_leaves_is_settled_and_the_next_run_resumes_it(
    study, coordinator, settle, attempts
):
    study.behave({"baseline/0": ["slow", "complete"]})
    process = coordinator(study)
    running = AttemptFolder(study.folder.attempt(arm="baseline", seed=0, number=1))
    within(60, running.heartbeat.exists)
    process.send_signal(signal.SIGKILL)
    process.wait(60)

    within(60, lambda: settle(study))

    ((trial, outcome, _reason),) = attempts(study)
    assert (trial, outcome) == ("baseline/0", "lost")
    assert study.run().counts == {"completed": 2}
