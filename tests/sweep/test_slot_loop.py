"""What a slot does when something on the way to an ending goes wrong."""

import errno
import json
from datetime import datetime
from types import SimpleNamespace

import pytest

from sweeper.records import Reason
from sweeper.store.claims import LEASE_SECONDS, Owner
from sweeper.store.store import StudyStore
from sweeper.sweep import slot_loop
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.slot_loop import _not_started, _Wishes
from sweeper.sweep.stop_request import StopRequest

OTHER = Owner(worker="local", host="another-host", pid=1, started_at="1.0")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, Reason.DISK),
        (errno.EDQUOT, Reason.DISK),
        (errno.EAGAIN, Reason.WORKER_LOST),
        (errno.EACCES, Reason.WORKER_LOST),
    ],
)
def test_an_attempt_that_could_not_be_started_says_whose_fault_it_is(number, reason):
    assert _not_started(OSError(number, "what the system says")).reason is reason


def test_a_cell_whose_folder_cannot_be_made_is_lost_and_the_rest_goes_on(study, attempts):
    """The study allows one resume; a file stands where the cell's folder would be."""
    study.folder.trials.mkdir(parents=True)
    (study.folder.trials / "half-0").write_text("in the way")

    end = study.run()

    assert end.counts == {"completed": 1, "lost": 1}
    assert attempts(study) == [
        ("baseline/0", "completed", "budget_reached"),
        ("half/0", "lost", "worker_lost"),
        ("half/0", "lost", "worker_lost"),
    ]


def spec(study, number):
    folder = study.folder.attempt(arm="half", seed=0, number=number)
    return json.loads((folder / "spec.json").read_text())


def test_an_attempt_is_told_the_folder_of_the_one_before_it(study):
    study.behave({"half/0": ["killed_after_a_checkpoint"] * 2 + ["complete"]})

    study.run()

    folders = [study.folder.attempt(arm="half", seed=0, number=number) for number in (1, 2)]
    assert [spec(study, number)["resume_from"] for number in (1, 2, 3)] == [
        None,
        *map(str, folders),
    ]
    assert not spec(study, 3)["resume_elsewhere"]


def test_an_attempt_that_was_told_nothing_is_passed_over(study, small, attempts, recorder):
    """A file stood where its folder would be, so that it left no spec to follow."""
    text = study.file.path.read_text()
    study.file.path.write_text(text.replace("max_resumes: 1", "max_resumes: 2"))
    raised = small(study.place)
    raised.behave({"half/0": ["killed_after_a_checkpoint", "complete"]})
    stop = StopRequest()
    raised.run(stop=stop, observer=recorder(trial_ended=stop.ask))
    second = raised.folder.attempt(arm="half", seed=0, number=2)
    second.parent.mkdir(parents=True)
    second.write_text("in the way")

    raised.run()

    assert [reason for _, _, reason in attempts(raised)[1:]] == [
        "killed",
        "worker_lost",
        "budget_reached",
    ]
    first = raised.folder.attempt(arm="half", seed=0, number=1)
    assert spec(raised, 3)["resume_from"] == str(first)


def test_a_trial_is_told_how_to_keep_checkpoints(study, small):
    text = study.file.path.read_text()
    options = "max_resumes: 1, checkpoint: {every: {windows: 50}, keep: 3}"
    study.file.path.write_text(text.replace("max_resumes: 1", options))

    small(study.place).run()

    assert spec(study, 1)["checkpoint"] == {"every": {"windows": 50}, "keep": 3}


def test_damaged_events_make_a_result_worthless_and_are_told(study, trials, recorder):
    study.behave({"half/0": ["garbled"]})
    observer = recorder()

    study.run(observer=observer)

    assert trials(study)["half/0"]["reason"] == "result_missing"
    assert any("events.jsonl" in message for message in observer.messages)


def test_a_cell_that_was_taken_over_is_given_up_and_its_result_stored_apart(
    study, recorder, attempts
):
    study.behave({"baseline/0": ["slow"], "half/0": ["complete"]})
    taken = []

    def take_over():
        if not taken:
            with StudyStore.open(study.url) as store:
                store.lose_dead(lambda _: True, max_resumes=1)
                taken.append(store.claim(OTHER, "cpu 1"))

    observer = recorder(progress=take_over)

    end = study.run(observer=observer, lease=LeaseTerms(seconds=0.5))

    assert end.counts == {"running": 1, "completed": 1}
    assert "baseline/0: attempt 1 had been taken over; its result is kept apart" in (
        observer.messages
    )
    with StudyStore.read(study.url) as store:
        (late,) = store.late_results()
        assert [row["outcome"] for row in store.attempts("baseline/0")] == ["lost", None]
    assert (late.cell, late.attempt, late.outcome.reason) == ("baseline/0", 1, Reason.KILLED)


def test_the_lease_of_a_running_attempt_is_renewed(study):
    study.behave({"baseline/0": ["unhurried"]})

    study.run(lease=LeaseTerms(seconds=LEASE_SECONDS / 1000))

    with StudyStore.read(study.url) as store:
        (attempt,) = store.attempts("baseline/0")
    claimed, expires = (
        datetime.fromisoformat(attempt[name]) for name in ("claimed_at", "lease_expires_at")
    )
    assert (expires - claimed).total_seconds() > 2.0, "it ran for 2.7 s, the lease is for 0.3"


def test_what_earlier_attempts_used_counts_against_the_wall_clock(study, attempts, small):
    """Two attempts of a cell share its limit of 1.5 s: the first is killed, the second too slow."""
    text = study.file.path.read_text().replace("max_resumes: 1", "limits: {wall_clock: 1.5s}")
    study.file.path.write_text(text)
    limited = small(study.place)
    limited.behave({"half/0": ["late_kill", "slow"]})

    end = limited.run()

    assert end.counts == {"completed": 1, "limited": 1}
    assert attempts(limited)[1:] == [
        ("half/0", "lost", "killed"),
        ("half/0", "limited", "wall_clock"),
    ]
    with StudyStore.read(limited.url) as store:
        assert "in earlier attempts" in store.attempts("half/0")[1]["detail"]
        assert "0.0 s in earlier" not in store.attempts("half/0")[1]["detail"]


class Asked:
    """A running attempt that remembers what it was asked for."""

    def __init__(self):
        self.wishes = []

    def stop(self, *, grace_seconds):
        self.wishes.append("stop")

    def kill(self):
        self.wishes.append("kill")


@pytest.mark.parametrize(
    ("leases_missed", "shared", "wishes"),
    [
        (0.9, True, []),
        (1.0, True, ["stop"]),
        (1.9, True, ["stop"]),
        (2.0, True, ["kill"]),
        (9.0, False, []),
    ],
)
def test_a_trial_ends_whose_lease_could_not_be_renewed_where_others_could_take_it_over(
    leases_missed, shared, wishes, recorder
):
    run = SimpleNamespace(
        stop=StopRequest(), others=SimpleNamespace(may_exist=shared), observer=recorder()
    )
    watch = SimpleNamespace(is_ours=True, leases_missed=leases_missed, told_overdue="it is late")
    running = Asked()
    passed_on = _Wishes(run, running)

    passed_on.pass_on(watch)
    passed_on.pass_on(watch)

    assert running.wishes == wishes
    assert run.observer.messages == (["it is late"] if wishes == ["stop"] else [])


@pytest.mark.parametrize(
    ("turns", "shared", "seconds"),
    [
        ([1.0], True, 1.0),
        ([None], False, None),
        ([None, None], True, None),
        ([None, 0.2], True, 0.2),
    ],
)
def test_a_slot_looks_twice_before_it_leaves_where_others_may_give_a_cell_back(
    turns, shared, seconds, monkeypatch
):
    taken = iter(turns)
    monkeypatch.setattr(slot_loop, "_take_turn", lambda _run, _slot: next(taken))
    run = SimpleNamespace(stop=StopRequest(), others=SimpleNamespace(may_exist=shared))

    assert slot_loop._next_look(run, None) == seconds
    assert list(taken) == []
