"""Whose turn it is while no trial of the study has shown that trials run."""

from datetime import UTC, datetime

from trial_records import update

from sweeper.records import Event, Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.sweep.first_turn import FirstTurn, first_turn

ELSEWHERE = Owner(worker="worker", host="another-host", pid=1, started_at="1.0")


FIRST_UPDATE = Event(sequence=1, at=datetime(2026, 3, 1, tzinfo=UTC), record=update())


def turn(store):
    return first_turn(store, rule="baseline_failed")


def ended(store, claim, reason):
    store.finish(claim, Outcome(reason=reason, detail="so it was"), max_resumes=3)


def statuses(store):
    return [str(cell.status) for cell in store.cells()]


def test_a_study_that_nobody_has_begun_is_anybody_s(store):
    assert turn(store) == FirstTurn(is_over=False, is_taken=False, begun=0)


def test_the_first_trial_may_run_on_another_host(store):
    store.claim(ELSEWHERE, "cpu 1")

    assert turn(store) == FirstTurn(is_over=False, is_taken=True, begun=1)


def test_its_first_update_lets_the_others_in(store):
    claim = store.claim(ELSEWHERE, "cpu 1")
    store.ingest(claim, [FIRST_UPDATE])

    assert turn(store).is_over


def test_what_was_lost_is_tried_again_alone(store):
    claim = store.claim(ELSEWHERE, "cpu 1")
    store.ingest(claim, [FIRST_UPDATE])
    ended(store, claim, Reason.KILLED)
    assert turn(store) == FirstTurn(is_over=False, is_taken=False, begun=1)

    store.claim(ELSEWHERE, "cpu 1")
    assert turn(store) == FirstTurn(is_over=False, is_taken=True, begun=2)


def test_a_first_trial_that_failed_on_another_host_ends_the_study(store):
    ended(store, store.claim(ELSEWHERE, "cpu 1"), Reason.CODE_ERROR)

    turn(store)

    assert statuses(store) == ["ended", "not_run"]
    assert store.study().ended_why == ("the first trial failed: baseline/0 (code_error): so it was")


def test_a_completed_trial_is_a_proof(store):
    ended(store, store.claim(ELSEWHERE, "cpu 1"), Reason.BUDGET_REACHED)

    assert turn(store).is_over
    assert statuses(store) == ["ended", "waiting"]
