"""Who may start a trial while nothing has shown that trials of the study run."""

from datetime import UTC, datetime

import pytest
from trial_records import evaluation, update

from sweeper.records import Event, Outcome, Reason, Resumed
from sweeper.sweep.turns import Turns


def event(record):
    return Event(sequence=1, at=datetime(2026, 3, 1, tzinfo=UTC), record=record)


def window(*, ran):
    return event(update(updates=int(ran), ran=ran))


def ended(reason):
    return Outcome(reason=reason, detail="")


def test_the_first_slot_runs_alone():
    turns = Turns(proven=False)

    assert turns.take("a")
    assert not turns.take("b")


def test_slots_run_side_by_side_in_a_study_whose_trials_are_known_to_run():
    turns = Turns(proven=True)

    assert turns.take("a")
    assert turns.take("b")


@pytest.mark.parametrize(
    ("events", "proven"),
    [
        ((), False),
        ((event(evaluation(index=0)),), False),
        ((window(ran=True),), False),
        ((event(evaluation(index=1)), window(ran=True)), False),
        ((event(evaluation(index=0)), window(ran=False)), False),
        ((event(evaluation(index=0)), window(ran=True)), True),
    ],
)
def test_an_initial_evaluation_and_an_update_let_the_others_in(events, proven):
    turns = Turns(proven=False)
    turns.take("a")

    turns.saw(events)

    assert turns.take("b") is proven


def test_a_slot_that_gave_its_turn_back_lets_the_next_one_try_alone():
    turns = Turns(proven=False)
    turns.take("a")

    turns.give_back("a")

    assert not turns.anyone_busy
    assert turns.take("b")
    assert not turns.take("a")


@pytest.mark.parametrize(
    ("reason", "proven"),
    [
        (Reason.BUDGET_REACHED, True),
        (Reason.NONFINITE_LOSS, True),
        (Reason.WALL_CLOCK, False),
        (Reason.KILLED, False),
        (Reason.USER_CANCELLED, False),
        (Reason.CODE_ERROR, False),
    ],
)
def test_only_an_ending_of_the_trials_own_shows_that_trials_run(reason, proven):
    turns = Turns(proven=False)

    turns.ended(ended(reason))

    assert turns.proven is proven


def test_half_a_proof_from_a_lost_attempt_does_not_count_for_the_next():
    turns = Turns(proven=False)
    turns.saw([event(evaluation(index=0))])

    turns.ended(ended(Reason.KILLED))
    turns.saw([window(ran=True)])

    assert not turns.proven


def test_a_loss_takes_nothing_back_that_was_proven():
    turns = Turns(proven=True)

    turns.ended(ended(Reason.KILLED))

    assert turns.proven


def test_a_trial_that_goes_on_was_evaluated_before_its_checkpoint():
    turns = Turns(proven=False)

    turns.saw([event(Resumed(after_window=2, checkpoint="1/checkpoints/00000002", sha256="c0"))])
    turns.saw([window(ran=True)])

    assert turns.proven


def test_a_slot_that_left_is_not_at_work_any_more():
    turns = Turns(proven=True)

    turns.leave("b")

    assert turns.still_here(("a", "b", "c")) == {"a", "c"}


def test_a_slot_is_told_of_others_at_work_not_of_itself():
    turns = Turns(proven=True)
    turns.take("cpu 0")
    assert not turns.others_busy("cpu 0")

    turns.take("cpu 1")
    assert turns.others_busy("cpu 0")

    turns.give_back("cpu 1")
    assert not turns.others_busy("cpu 0")
