"""Where a cell stands after an attempt, for every reason there is."""

from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.store.status import CellStatus, Stint, losses_without_progress, status_after


def lost(began=0, checkpoint=None, reason=Reason.KILLED):
    """An attempt that was lost: where it had begun, and the newest checkpoint that it made."""
    return Stint(reason=reason, began_after_window=began, checkpoint_window=checkpoint)


def preempted(began=0, checkpoint=None):
    return lost(began, checkpoint, Reason.PREEMPTED)


def cancelled(began=0, checkpoint=None):
    return lost(began, checkpoint, Reason.USER_CANCELLED)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.BUDGET_REACHED, "ended"),
        (Reason.NONFINITE_LOSS, "ended"),
        (Reason.NO_UPDATES, "ended"),
        (Reason.HOST_MEMORY, "ended"),
        (Reason.WALL_CLOCK, "ended"),
        (Reason.RESULT_MISSING, "ended"),
        (Reason.WORKER_LOST, "waiting"),
        (Reason.FOREIGN_MEMORY, "waiting"),
        (Reason.PREEMPTED, "waiting"),
        (Reason.DEADLINE, "waiting"),
    ],
)
def test_only_what_the_machine_or_the_user_ended_waits_again(reason, status):
    assert status_after(Stint(reason=reason), max_resumes=3) == status


@pytest.mark.parametrize(
    ("losses_before", "status"), [(0, "waiting"), (2, "waiting"), (3, "ended"), (4, "ended")]
)
def test_a_cell_is_resumed_three_times_without_progress_and_no_more(losses_before, status):
    earlier = [lost()] * losses_before

    assert status_after(lost(), earlier=earlier, max_resumes=3) == status


@pytest.mark.parametrize("checkpoint", [None, 40])
def test_without_resumes_the_first_loss_is_the_end(checkpoint):
    assert status_after(lost(checkpoint=checkpoint), max_resumes=0) is CellStatus.ENDED


@pytest.mark.parametrize("ending", [cancelled(), cancelled(checkpoint=9), preempted(checkpoint=9)])
def test_what_the_user_cancelled_or_came_further_before_it_was_preempted_waits(ending):
    assert status_after(ending, earlier=[lost()] * 9, max_resumes=0) is CellStatus.WAITING


def misplaced():
    """An attempt that was not where its seed began, and gave the place back."""
    return Stint(reason=Reason.PREEMPTED, misplaced=True)


def test_what_was_only_in_the_wrong_place_waits_however_often():
    earlier = [misplaced()] * 9

    assert status_after(misplaced(), earlier=earlier, max_resumes=0) is CellStatus.WAITING


@pytest.mark.parametrize(("losses_before", "status"), [(2, "waiting"), (3, "ended")])
def test_wrong_places_are_no_losses_and_leave_those_before_them_as_they_are(losses_before, status):
    earlier = [*[lost()] * losses_before, *[misplaced()] * 9]

    assert status_after(lost(), earlier=earlier, max_resumes=3) == status


def test_a_preemption_without_a_newer_checkpoint_is_a_loss_like_any_other():
    again = [preempted(began=9), preempted(began=9, checkpoint=9)]

    assert losses_without_progress(again, lost(began=9)) == 2
    assert status_after(preempted(began=9), earlier=again, max_resumes=2) is CellStatus.ENDED


@pytest.mark.parametrize(
    ("earlier", "ending", "losses"),
    [
        ([lost(), lost()], lost(), 2),
        ([lost(), cancelled(), lost()], lost(), 2),
        ([lost(), lost(checkpoint=5)], lost(began=5), 1),
        ([lost(), preempted(checkpoint=5)], lost(began=5), 0),
        ([lost(), cancelled(checkpoint=5)], lost(began=5), 0),
        ([lost(checkpoint=5), lost(began=5), lost(began=5)], lost(began=5), 3),
        ([lost(checkpoint=5), lost(began=5, checkpoint=8)], lost(began=8), 1),
        ([lost(checkpoint=5), lost(began=None)], lost(began=5), 2),
        ([lost(), lost(checkpoint=5), lost(began=None)], lost(began=None), 2),
    ],
    ids=[
        "no checkpoint at all",
        "a cancelled attempt between two losses",
        "a loss after progress is the first of a new row",
        "a preemption after progress is none",
        "a cancelled attempt that came further",
        "the same checkpoint again and again",
        "always further",
        "one that never began",
        "nobody has tried the newest checkpoint yet",
    ],
)
def test_losses_count_since_a_cell_last_came_further(earlier, ending, losses):
    assert losses_without_progress(earlier, ending) == losses


def test_the_newest_checkpoint_which_nobody_has_tried_outweighs_one_loss():
    assert losses_without_progress([lost(), lost()], lost(checkpoint=5)) == 1


def test_a_checkpoint_that_was_passed_over_is_no_progress():
    """Every attempt writes the checkpoint of window 8, and no later one can go on from it."""
    damaged = lost(began=5, checkpoint=8)

    assert losses_without_progress([damaged] * 3, damaged) == 2
    assert status_after(damaged, earlier=[damaged] * 3, max_resumes=2) is CellStatus.ENDED


def test_a_trial_that_starts_over_and_comes_further_each_time_goes_on():
    """All of its first attempt's checkpoints turned out to be damaged."""
    earlier = [lost(checkpoint=90), lost(began=0, checkpoint=10), lost(began=10, checkpoint=20)]

    after = status_after(lost(began=20, checkpoint=30), earlier=earlier, max_resumes=1)

    assert after is CellStatus.WAITING
