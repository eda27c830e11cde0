"""Attempts of coordinators that are gone, or not."""

import json
import os

import psutil
import pytest

from sweeper.errors import StudyBusy
from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.sweep.adopting import adopt_leftovers
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.finishing import Terms
from sweeper.sweep.stop_request import StopRequest
from sweeper.workers.liveness import host_name

TERMS = Terms(budget_target_tokens=40, max_resumes=1)
GONE = Owner(worker="local", host=host_name(), pid=2**22 + 1, started_at="1.0")
ELSEWHERE = Owner(worker="local", host="another-host", pid=1, started_at="1.0")


@pytest.fixture
def founded(study):
    """A study on record of which no cell was begun."""
    stop = StopRequest()
    stop.ask()
    study.run(stop=stop)
    return study


@pytest.fixture
def store(founded):
    with StudyStore.open(founded.url) as store:
        yield store


def adopt(study, store, observer):
    with only_coordinator(study.folder) as owner:
        adopt_leftovers(store, study.folder, owner, terms=TERMS, observer=observer)


def test_an_attempt_that_never_got_a_folder_is_lost(founded, store, recorder):
    store.claim(GONE, "cpu 1")
    observer = recorder()

    adopt(founded, store, observer)

    (attempt,) = store.attempts()
    assert (attempt["outcome"], attempt["reason"]) == ("lost", "worker_lost")
    assert store.cells()[0].status == "waiting"
    assert observer.messages == [
        f"baseline/0: attempt 1, left by process {GONE.pid}, ended as lost (worker_lost)"
    ]


def test_what_this_process_left_in_an_earlier_run_is_a_leftover_too(founded, store, recorder):
    with only_coordinator(founded.folder) as owner:
        store.claim(owner, "cpu 1")

    adopt(founded, store, recorder())

    assert store.attempts()[0]["reason"] == "worker_lost"


def test_an_attempt_of_another_host_is_left_alone_while_its_lease_holds(founded, store, recorder):
    store.claim(ELSEWHERE, "cpu 1")

    adopt(founded, store, recorder())

    assert store.attempts()[0]["outcome"] is None
    assert store.cells()[0].status == "running"


def test_an_attempt_of_another_host_is_taken_over_long_after_its_lease(founded, store, recorder):
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)
    observer = recorder()

    adopt(founded, store, observer)

    assert store.attempts()[0]["reason"] == "worker_lost"
    assert observer.messages == ["baseline/0: taken over from another-host, overdue"]


def test_a_living_owner_on_this_host_is_never_robbed(founded, store, recorder):
    parent = psutil.Process(os.getppid())
    owner = Owner(
        worker="local", host=host_name(), pid=parent.pid, started_at=repr(parent.create_time())
    )
    store.claim(owner, "cpu 1")

    with pytest.raises(StudyBusy, match=f"process {parent.pid} on "):
        adopt(founded, store, recorder())

    assert store.attempts()[0]["outcome"] is None


def test_a_study_held_on_another_host_is_not_replaced(founded, store):
    store.claim(ELSEWHERE, "cpu 1")

    with pytest.raises(StudyBusy, match="another-host"):
        founded.run(replace=True)

    assert json.loads(founded.folder.plan.read_text())["fingerprint"] == founded.plan.fingerprint


def test_a_run_leaves_a_cell_that_another_host_holds(founded, store):
    store.claim(ELSEWHERE, "cpu 1")

    end = founded.run()

    assert end.counts == {"running": 1, "completed": 1}
    assert end.status == 3
