"""The repeat of the baseline runs in another slot than the baseline, where there is another."""

import time

import pytest

from sweeper.errors import StoreError
from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.sweep import running, slot_loop
from sweeper.sweep.repeats import meant_for_another_slot
from sweeper.sweep.slot_loop import run_slot
from sweeper.sweep.stop_request import StopRequest

pytestmark = pytest.mark.slow  # real studies, though of trials without torch

BASELINE, REPEAT = "baseline/0", "baseline/0~repeat"
SOMEBODY = Owner(worker="local", host="another-host", pid=1, started_at="1.0")
LOST = Outcome(reason=Reason.KILLED, detail="by somebody")
CELLS = (
    Cell(id=BASELINE, arm="baseline", seed=0, value=1e-4),
    Cell(id=REPEAT, arm="baseline~repeat", seed=0, value=1e-4, repeats=BASELINE),
    Cell(id="half/0", arm="half", seed=0, value=5e-5),
)


@pytest.mark.parametrize(
    ("ran_in", "left"),
    [
        ({}, set()),
        ({"half/0": "a"}, set()),
        ({BASELINE: "a"}, {REPEAT}),
        ({BASELINE: "b"}, set()),
        ({REPEAT: "a"}, {BASELINE}),
        ({BASELINE: "b", REPEAT: "a"}, {BASELINE}),
        ({BASELINE: "a", REPEAT: "a"}, {BASELINE, REPEAT}),
    ],
)
def test_slot_a_leaves_to_b_what_belongs_to_a_cell_it_ran(ran_in, left):
    assert meant_for_another_slot(CELLS, ran_in=ran_in, slot="a", slots=("a", "b")) == left


@pytest.mark.parametrize("slots", [("a",), ()])
def test_without_another_slot_nothing_is_left(slots):
    ran_in = {BASELINE: "a"}

    assert meant_for_another_slot(CELLS, ran_in=ran_in, slot="a", slots=slots) == frozenset()


def test_without_a_repeat_nothing_is_left():
    cells = (CELLS[0], CELLS[2])

    assert (
        meant_for_another_slot(cells, ran_in={BASELINE: "a"}, slot="a", slots=("a", "b"))
        == frozenset()
    )


@pytest.fixture
def study(tmp_path, small):
    """Three cells: the baseline, its repeat, half."""
    return small(tmp_path, noise_floor="true")


def slots_of(study):
    with StudyStore.read(study.url) as store:
        return {row["trial"]: row["slot"] for row in store.attempts()}


def test_on_one_slot_the_repeat_follows_the_baseline(study, recorder, trials, optuna_trials):
    observer = recorder()

    end = study.run(observer=observer)

    assert (end.status, end.counts) == (0, {"completed": 3})
    assert observer.started == [(BASELINE, 1), (REPEAT, 1), ("half/0", 1)]
    assert trials(study)[REPEAT]["arm"] == "baseline~repeat"
    assert optuna_trials(study)[REPEAT].params == {"learning_rate": 2e-4}
    assert optuna_trials(study)[REPEAT].state.name == "COMPLETE"


@pytest.mark.parametrize("reverse", [False, True])
def test_on_two_slots_the_repeat_runs_where_the_baseline_did_not(study, reverse):
    end = study.run(slots=2, reverse=reverse)

    assert end.counts == {"completed": 3}
    assert len({slots_of(study)[cell] for cell in (BASELINE, REPEAT)}) == 2


def test_a_slot_waits_for_the_one_that_may_run_what_it_may_not(study):
    """The baseline's slot is free long before the other one, which is busy with `half`."""
    study.behave({"half/0": ["unhurried"], REPEAT: ["killed", "complete"]})

    end = study.run(slots=2)

    assert end.counts == {"completed": 3}
    assert len({slots_of(study)[cell] for cell in (BASELINE, REPEAT)}) == 2


@pytest.fixture
def remainder(study, recorder):
    """The study with its repeat alone left open, its baseline having run in slot `cpu 0`.

    A run on one slot was interrupted, and `half` is lost for good by another hand.
    """
    study.behave({REPEAT: ["slow", "complete"]})
    stop = StopRequest()
    baseline_done = recorder(trial_ended=lambda: baseline_done.on.update(slot_started=stop.ask))
    study.run(observer=baseline_done, stop=stop)
    with StudyStore.open(study.url) as store:
        store.finish(store.claim(SOMEBODY, "cpu 1", cell="half/0"), LOST, max_resumes=0)
    return study


def test_the_repeat_as_the_last_open_cell_still_finds_the_other_slot(remainder):
    end = remainder.run(slots=2)

    assert end.counts == {"completed": 2, "lost": 1}
    assert slots_of(remainder)[REPEAT] == "cpu 1"


@pytest.fixture
def broken_slot(monkeypatch):
    """The database fails slot `cpu 1` at its first claim."""
    honest = StudyStore.claim

    def failing(store, owner, slot, **options):
        if slot == "cpu 1":
            raise StoreError("no database here")
        return honest(store, owner, slot, **options)

    monkeypatch.setattr(StudyStore, "claim", failing)
    monkeypatch.setattr(slot_loop, "PAUSES_SECONDS", (0.1, 0.2))


def test_the_repeat_runs_where_the_baseline_did_once_the_other_slot_gave_up(study, broken_slot):
    with pytest.raises(StoreError, match="no database here"):
        study.run(slots=2)

    assert slots_of(study) == {BASELINE: "cpu 0", REPEAT: "cpu 0", "half/0": "cpu 0"}


def test_a_slot_stays_until_what_it_left_to_another_is_taken(
    remainder, broken_slot, monkeypatch, attempts
):
    """The other slot comes a second late, and then gives up."""

    def late(run, slot):
        time.sleep(float(slot.name == "cpu 1"))
        return run_slot(run, slot)

    monkeypatch.setattr(running, "run_slot", late)

    with pytest.raises(StoreError, match="no database here"):
        remainder.run(slots=2)

    assert [outcome for cell, outcome, _ in attempts(remainder) if cell == REPEAT] == [
        "cancelled",
        "completed",
    ]


def test_a_stopped_repeat_is_no_failure_of_the_baseline(study):
    study.behave({REPEAT: ["stop"]})

    end = study.run()

    assert (end.status, end.counts) == (0, {"completed": 2, "stopped": 1})
    assert end.ended_early is None


def test_a_repeat_that_fails_leaves_the_criteria_unmet(study):
    study.behave({REPEAT: ["late_error"]})

    end = study.run()

    assert (end.status, end.counts) == (3, {"completed": 2, "failed": 1})


def test_a_stopped_baseline_leaves_its_repeat_not_run(study, trials):
    study.behave({BASELINE: ["stop"]})

    end = study.run()

    assert end.counts == {"stopped": 1, "not_run": 2}
    assert trials(study)[REPEAT]["status"] == "not_run"
