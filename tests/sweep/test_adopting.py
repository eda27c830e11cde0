"""Attempts of coordinators that are gone, or not."""

import json
import os
import shutil

import pytest

from sweeper.errors import StudyBusy
from sweeper.store.claims import Owner
from sweeper.sweep.adopting import adopt_leftovers
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.finishing import Terms
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.running import take_up
from sweeper.sweep.silence import overdue_claims
from sweeper.workers.liveness import birth, host_name

TERMS = Terms(budget_target_tokens=40, max_resumes=1)
GONE = Owner(worker="local", host=host_name(), pid=2**22 + 1, started_at="1.0")
ELSEWHERE = Owner(worker="local", host="another-host", pid=1, started_at="1.0")


def adopt(study, store, observer, *, locked=False):
    with only_coordinator(study.folder) as owner:
        adopt_leftovers(
            store,
            study.folder,
            owner,
            terms=TERMS,
            observer=observer,
            locked=locked,
            silent=overdue_claims(store, LeaseTerms()),
        )


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


def test_whoever_joins_takes_nothing_over_from_another_host_at_once(founded, store, recorder):
    """The database's clock may have been set: its owner has the time to renew the lease first."""
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)

    with only_coordinator(founded.folder) as owner:
        take_up(founded.file, founded.folder, owner, replace=False, joins=True, observer=recorder())

    assert store.attempts()[0]["outcome"] is None


def test_a_living_owner_on_this_host_is_never_robbed(founded, store, recorder):
    parent = os.getppid()
    owner = Owner(worker="local", host=host_name(), pid=parent, started_at=birth(parent))
    store.claim(owner, "cpu 1")

    with pytest.raises(StudyBusy, match=f"process {parent} on "):
        adopt(founded, store, recorder())

    assert store.attempts()[0]["outcome"] is None


def test_a_study_held_on_another_host_is_not_replaced(founded, store):
    store.claim(ELSEWHERE, "cpu 1")

    with pytest.raises(StudyBusy, match="another-host"):
        founded.run(replace=True)

    assert json.loads(founded.folder.plan.read_text())["fingerprint"] == founded.plan.fingerprint


def test_a_run_of_what_another_host_holds_is_refused_with_the_way_out(founded, store):
    store.claim(ELSEWHERE, "cpu 1")
    (live,) = store.live_attempts()

    with pytest.raises(StudyBusy) as refusal:
        founded.run()

    (fault,) = refusal.value.faults
    assert fault.what == "trial baseline/0 is being run by another coordinator"
    assert fault.got == "process 1 on another-host"
    assert f"{live.lease_expires_at:%H:%M} UTC and 6 minutes, when it counts as lost" in fault.hint
    assert "PostgreSQL (run.storage)" in fault.hint
    assert [row["outcome"] for row in store.attempts()] == [None]


def test_a_run_goes_on_with_what_another_host_has_left_long_ago(founded, store, attempts):
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)

    end = founded.run()

    assert end.counts == {"completed": 2}
    assert attempts(founded)[0] == ("baseline/0", "lost", "worker_lost")


def test_whoever_ran_in_another_container_of_this_host_is_gone_if_the_lock_is_free(
    founded, store, recorder
):
    """Its coordinator held the lock of the run folder as long as it lived, under one kernel."""
    machine, boot, _namespace = birth(os.getpid()).partition("@")[2].split(".")
    container = Owner(
        worker="local", host="container", pid=1, started_at=f"1.0@{machine}.{boot}.17"
    )
    store.claim(container, "cpu 1")
    observer = recorder()
    adopt(founded, store, observer)
    assert store.attempts()[0]["outcome"] is None, "it may have a run folder of its own"

    adopt(founded, store, observer, locked=True)

    assert store.attempts()[0]["reason"] == "worker_lost"


def test_what_another_host_has_finished_counts_when_it_is_taken_over(
    founded, store, small, recorder, trials
):
    """Both hosts see the folder; the owner died before it told the database."""
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)
    twin = small(founded.place / "twin")
    twin.run()
    ran = twin.folder.attempt(arm="baseline", seed=0, number=1)
    shutil.copytree(ran, founded.folder.path / claim.folder)
    (founded.folder.path / claim.folder / "verdict.json").unlink()

    adopt(founded, store, recorder())

    assert trials(founded)["baseline/0"]["outcome"] == "completed"
    assert trials(founded)["baseline/0"]["windows"] == 4


def test_what_another_host_has_reported_is_taken_in_when_it_is_taken_over(
    founded, store, small, recorder
):
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)
    twin = small(founded.place / "twin")
    twin.behave({"baseline/0": ["killed_after_a_checkpoint", "complete"]})
    twin.run()
    ran = twin.folder.attempt(arm="baseline", seed=0, number=1)
    shutil.copytree(ran, founded.folder.path / claim.folder)
    (founded.folder.path / claim.folder / "supervision.json").unlink()

    adopt(founded, store, recorder())

    (attempt,) = store.attempts()
    assert (attempt["reason"], attempt["checkpoint_window"]) == ("worker_lost", 1)
    assert "another-host) did not renew its lease" in attempt["detail"]
