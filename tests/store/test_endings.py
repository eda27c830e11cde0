"""An attempt ends once; what comes later is kept apart."""

from __future__ import annotations

import json

import pytest

from sweeper.records import Outcome, Reason
from sweeper.store.endings import Cost
from sweeper.store.status import CellStatus

pytestmark = pytest.mark.every_database


def status_of(store, cell):
    return next(record for record in store.cells() if record.cell == cell)


def lose(store, owner, cell, outcome, *, max_resumes):
    claim = store.claim(owner, "cpu0", cell=cell)
    assert store.finish(claim, outcome, max_resumes=max_resumes)


def test_finishing_ends_the_attempt_and_its_cell_with_outcome_reason_and_detail(
    store, owner, completed
):
    claim = store.claim(owner, "cpu0")

    assert store.finish(claim, completed, max_resumes=3)

    cell = status_of(store, "baseline/0")
    assert (cell.status, cell.outcome.value, cell.reason) == (
        CellStatus.ENDED,
        "completed",
        Reason.BUDGET_REACHED,
    )
    assert cell.detail == "read 100 of 100 target tokens"
    assert store.outcome(claim) == completed
    assert store.live_attempts() == []


def test_what_the_attempt_cost_is_recorded(store, owner, completed):
    claim = store.claim(owner, "cpu0")
    cost = Cost(wall_seconds=12.5, peak_memory_bytes=2**40, exit_status=-9)

    store.finish(claim, completed, max_resumes=3, cost=cost)

    (row,) = store.attempts()
    assert (row["wall_seconds"], row["peak_memory_bytes"], row["exit_status"]) == (12.5, 2**40, -9)


def test_finishing_twice_changes_nothing(store, owner, completed):
    claim = store.claim(owner, "cpu0")
    store.finish(claim, completed, max_resumes=3)
    before = store.attempts(), store.cells()

    assert store.finish(claim, completed, max_resumes=3)

    assert (store.attempts(), store.cells()) == before
    assert store.late_results() == ()


def test_a_second_ending_that_says_otherwise_is_kept_apart(store, owner, completed, ended):
    claim = store.claim(owner, "cpu0")
    store.finish(claim, completed, max_resumes=3)

    assert not store.finish(claim, ended(Reason.KILLED), max_resumes=3)

    assert store.outcome(claim) == completed
    (late,) = store.late_results()
    assert (late.cell, late.attempt, late.outcome) == ("baseline/0", 1, ended(Reason.KILLED))


def test_a_result_that_comes_after_a_takeover_is_kept_apart_once(
    store, owner, other_owner, completed
):
    old = store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)
    new = store.claim(other_owner, "cpu1")

    assert not store.finish(old, completed, max_resumes=3)
    assert not store.finish(old, completed, max_resumes=3)

    (late,) = store.late_results()
    assert (late.cell, late.attempt, late.outcome) == ("baseline/0", 1, completed)
    assert [live.claim for live in store.live_attempts()] == [new]
    assert [row["reason"] for row in store.attempts()] == ["worker_lost", None]


def test_a_late_result_does_not_end_a_cell_that_waits_again(store, owner, completed):
    old = store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)

    assert not store.finish(old, completed, max_resumes=3)

    assert status_of(store, "baseline/0").status is CellStatus.WAITING


@pytest.mark.parametrize(
    "reason",
    [
        Reason.USER_CANCELLED,
        Reason.DEADLINE,
        Reason.PREEMPTED,
        Reason.KILLED,
        Reason.HUNG,
        Reason.DEVICE_ERROR,
    ],
)
def test_a_cell_that_may_be_resumed_waits_again_without_an_outcome(store, owner, ended, reason):
    claim = store.claim(owner, "cpu0")

    store.finish(claim, ended(reason), max_resumes=3)

    cell = status_of(store, "baseline/0")
    assert (cell.status, cell.outcome, cell.reason) == (CellStatus.WAITING, None, None)
    assert [row["reason"] for row in store.attempts()] == [reason.value]
    assert store.claim(owner, "cpu0").cell == "baseline/0"


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (Reason.DIVERGED, "stopped"),
        (Reason.WALL_CLOCK, "limited"),
        (Reason.CODE_ERROR, "failed"),
    ],
)
def test_what_would_only_happen_again_is_not_run_again(store, owner, ended, reason, outcome):
    claim = store.claim(owner, "cpu0")

    store.finish(claim, ended(reason), max_resumes=3)

    assert status_of(store, "baseline/0").outcome.value == outcome
    assert store.claim(owner, "cpu0").cell == "double/0"


def test_a_cell_lost_once_more_than_it_may_be_resumed_ends_as_lost(store, owner, ended):
    lose(store, owner, "double/0", ended(Reason.KILLED), max_resumes=1)
    lose(store, owner, "double/0", ended(Reason.HUNG), max_resumes=1)

    cell = status_of(store, "double/0")
    assert (cell.status, cell.outcome.value, cell.attempts) == (CellStatus.ENDED, "lost", 2)
    assert store.claim(owner, "cpu0", cell="double/0") is None


def test_cancelled_attempts_use_up_no_resume(store, owner, ended):
    lose(store, owner, "double/0", ended(Reason.USER_CANCELLED), max_resumes=1)
    lose(store, owner, "double/0", ended(Reason.USER_CANCELLED), max_resumes=1)
    lose(store, owner, "double/0", ended(Reason.KILLED), max_resumes=1)

    assert status_of(store, "double/0").status is CellStatus.WAITING


def test_losses_after_which_a_cell_came_further_use_up_no_resume(
    store, attempt, checkpoint, resumed
):
    """Each attempt saves ten windows more, and is killed."""
    once = {"reason": Reason.KILLED, "max_resumes": 1}
    attempt("double/0", checkpoint(10), **once)
    attempt("double/0", resumed(10, attempt=1), checkpoint(20), **once)
    attempt("double/0", resumed(20, attempt=2), checkpoint(30), **once)

    assert status_of(store, "double/0").status is CellStatus.WAITING


def test_preemptions_before_which_nothing_was_saved_use_up_resumes(
    store, attempt, checkpoint, resumed
):
    once = {"reason": Reason.PREEMPTED, "max_resumes": 1}
    attempt("double/0", checkpoint(10), **once)
    attempt("double/0", resumed(10, attempt=1), **once)
    assert status_of(store, "double/0").status is CellStatus.WAITING

    attempt("double/0", resumed(10, attempt=1), **once)

    cell = status_of(store, "double/0")
    assert (cell.status.value, cell.outcome.value, cell.reason.value) == (
        "ended",
        "lost",
        "preempted",
    )


def test_attempts_that_were_only_in_the_wrong_place_use_up_no_resume(store, owner, ended):
    evidence = {"environment_found": '{"device": "H100"}'}
    misplaced = Outcome(reason=Reason.PREEMPTED, detail="go elsewhere", evidence=evidence)
    for _ in range(3):
        lose(store, owner, "baseline/0", misplaced, max_resumes=1)
        assert status_of(store, "baseline/0").status is CellStatus.WAITING

    lose(store, owner, "baseline/0", ended(Reason.KILLED), max_resumes=1)
    assert status_of(store, "baseline/0").status is CellStatus.WAITING
    lose(store, owner, "baseline/0", ended(Reason.KILLED), max_resumes=1)
    assert status_of(store, "baseline/0").outcome == "lost"


def test_evidence_is_json_that_every_reader_takes(store, owner):
    claim = store.claim(owner, "cpu0")
    evidence = {"loss": float("nan"), "path": "caf\udce9", "text": "a\0b"}
    outcome = Outcome(reason=Reason.CODE_ERROR, detail="bad \udce9 name", evidence=evidence)

    store.finish(claim, outcome, max_resumes=3)

    (row,) = store.attempts()
    assert json.loads(row["evidence"]) == {
        "loss": "nan",
        "path": "caf\\udce9",
        "text": "a\\x00b",
    }
    assert row["detail"] == "bad \\udce9 name"
