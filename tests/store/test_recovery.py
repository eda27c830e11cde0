"""Attempts of the dead are put on record as lost, and nobody else's are."""

from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.store.recovery import live_attempts, lose
from sweeper.store.status import CellStatus

pytestmark = pytest.mark.every_database


def test_a_dead_owners_attempt_is_lost_with_reason_and_evidence(store, owner):
    store.claim(owner, "cpu0")

    (lost,) = store.lose_dead(lambda dead: dead == owner, max_resumes=3)

    outcome = store.outcome(lost.claim)
    assert outcome.reason is Reason.WORKER_LOST
    assert outcome.detail == "worker w1 (process 4711 on here) is gone"
    assert (outcome.evidence["pid"], outcome.evidence["process_started_at"]) == (
        "4711",
        "1700000000.25",
    )


def test_its_cell_is_claimed_again_with_the_next_fencing_number(store, owner, other_owner):
    store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)

    again = store.claim(other_owner, "cpu1")

    assert (again.cell, again.attempt, again.fencing_number) == ("baseline/0", 2, 2)


def test_an_owner_that_lives_keeps_its_cell(store, owner, other_owner):
    store.claim(owner, "cpu0")
    kept = store.claim(other_owner, "cpu1")

    store.lose_dead(lambda candidate: candidate == owner, max_resumes=3)

    assert [live.claim for live in store.live_attempts()] == [kept]


def test_asking_again_loses_nothing_more(store, owner):
    store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)

    assert store.lose_dead(lambda _owner: True, max_resumes=3) == ()
    assert len(store.attempts()) == 1


def test_an_attempt_that_finished_meanwhile_is_not_lost(store, owner, completed):
    claim = store.claim(owner, "cpu0")
    seen = store.live_attempts()
    store.finish(claim, completed, max_resumes=3)

    lost = store._database.write(lambda c: lose(c, seen, why="is gone", max_resumes=3))

    assert lost == ()
    assert store.outcome(claim) == completed


def test_a_cell_lost_too_often_ends_as_lost(store, owner):
    store.claim(owner, "cpu0")

    store.lose_dead(lambda _owner: True, max_resumes=0)

    cell = store.cells()[0]
    assert (cell.status, cell.reason) == (CellStatus.ENDED, Reason.WORKER_LOST)


@pytest.mark.parametrize(("grace_seconds", "lost"), [(0.0, True), (30.0, True), (90.0, False)])
def test_a_lease_is_taken_over_only_after_it_expired_and_the_grace_is_over(
    store, owner, grace_seconds, lost
):
    store.claim(owner, "cpu0", lease_seconds=-60)
    store.claim(owner, "cpu1", lease_seconds=60)
    expired, held = store.live_attempts(grace_seconds=grace_seconds)

    taken = [
        store.lose_overdue(live, grace_seconds=grace_seconds, max_resumes=3)
        for live in (expired, held)
    ]

    assert taken == [lost, False]
    assert (expired.overdue, held.overdue) == (lost, False)


def test_a_lease_that_was_renewed_in_the_meantime_is_not_taken_over(store, owner):
    claim = store.claim(owner, "cpu0", lease_seconds=-60)
    (overdue,) = store.live_attempts()
    store.renew(claim)

    assert not store.lose_overdue(overdue, grace_seconds=0.0, max_resumes=3)
    assert [live.claim for live in store.live_attempts()] == [claim]


def test_what_was_taken_over_already_is_not_taken_over_again(store, owner, other_owner):
    store.claim(owner, "cpu0", lease_seconds=-60)
    (overdue,) = store.live_attempts()
    assert store.lose_overdue(overdue, grace_seconds=0.0, max_resumes=3)
    again = store.claim(other_owner, "cpu1")

    assert not store.lose_overdue(overdue, grace_seconds=0.0, max_resumes=3)
    assert [live.claim for live in store.live_attempts()] == [again]


def test_an_overdue_attempt_is_lost_with_how_long_it_was_silent(store, owner):
    claim = store.claim(owner, "cpu0", lease_seconds=-60)
    (overdue,) = store.live_attempts()

    store.lose_overdue(overdue, grace_seconds=30.0, max_resumes=3)

    outcome = store.outcome(claim)
    assert outcome.reason is Reason.WORKER_LOST
    assert outcome.detail == (
        "worker w1 (process 4711 on here) did not renew its lease, which expired more than 30 s ago"
    )


def test_live_attempts_know_their_claims_in_plan_order(store, owner, other_owner):
    second = store.claim(other_owner, "cpu1", cell="double/1")
    first = store.claim(owner, "cpu0", cell="baseline/0")

    live = store._database.read(live_attempts)

    assert [attempt.claim for attempt in live] == [first, second]
    assert [attempt.supervisor for attempt in live] == [None, None]
    assert 299 < (live[0].lease_expires_at - live[0].claimed_at).total_seconds() < 301


def test_an_attempt_that_still_runs_goes_on_under_another_owner_and_number(
    store, owner, other_owner, completed
):
    before = store.claim(owner, "slurm 1")

    after = store.take_over(before, other_owner, "slurm 2")

    assert (after.cell, after.attempt, after.fencing_number) == (before.cell, 1, 2)
    (live,) = store.live_attempts()
    assert (live.claim.owner, live.claim.slot) == (other_owner, "slurm 2")
    assert store.finish(after, completed, max_resumes=3)
    assert store.attempts()[0]["fencing_number"] == 2


def test_who_had_an_attempt_that_was_taken_over_is_fenced_off(store, owner, other_owner, completed):
    before = store.claim(owner, "slurm 1")
    store.take_over(before, other_owner, "slurm 1")

    assert not store.renew(before)
    assert not store.finish(before, completed, max_resumes=3)

    (late,) = store.late_results()
    assert late.outcome.reason is completed.reason
    assert [live.claim.owner for live in store.live_attempts()] == [other_owner]


def test_a_takeover_that_is_asked_for_again_is_the_same_one(store, owner, other_owner):
    before = store.claim(owner, "slurm 1")
    first = store.take_over(before, other_owner, "slurm 1")

    assert store.take_over(before, other_owner, "slurm 1") == first


def test_an_attempt_is_taken_over_by_one_owner(store, owner, other_owner):
    before = store.claim(owner, "slurm 1")
    store.take_over(before, other_owner, "slurm 1")

    assert store.take_over(before, owner, "slurm 1") is None


def test_an_attempt_that_has_ended_is_not_taken_over(store, owner, other_owner, completed):
    claim = store.claim(owner, "slurm 1")
    store.finish(claim, completed, max_resumes=3)

    assert store.take_over(claim, other_owner, "slurm 1") is None
