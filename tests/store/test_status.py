"""Where a cell stands after an attempt, for every reason there is."""

from __future__ import annotations

import pytest

from sweeper.records import OUTCOME_OF, OutcomeKind, Reason
from sweeper.store.status import COUNTED_LOSSES, CellStatus, status_after


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.BUDGET_REACHED, "ended"),
        (Reason.NONFINITE_LOSS, "ended"),
        (Reason.NO_UPDATES, "ended"),
        (Reason.HOST_MEMORY, "ended"),
        (Reason.RESULT_MISSING, "ended"),
        (Reason.WORKER_LOST, "waiting"),
        (Reason.FOREIGN_MEMORY, "waiting"),
        (Reason.PREEMPTED, "waiting"),
        (Reason.DEADLINE, "waiting"),
    ],
)
def test_only_what_the_machine_or_the_user_ended_waits_again(reason, status):
    assert status_after(reason, losses_before=0, max_resumes=3) == status


@pytest.mark.parametrize(
    ("losses_before", "status"), [(0, "waiting"), (2, "waiting"), (3, "ended"), (4, "ended")]
)
def test_a_cell_is_resumed_three_times_and_no_more(losses_before, status):
    after = status_after(Reason.KILLED, losses_before=losses_before, max_resumes=3)

    assert after == status


def test_without_resumes_the_first_loss_is_the_end():
    assert status_after(Reason.HUNG, losses_before=0, max_resumes=0) is CellStatus.ENDED


@pytest.mark.parametrize("reason", [Reason.PREEMPTED, Reason.USER_CANCELLED])
def test_what_is_taken_back_with_notice_waits_whatever_was_lost_before(reason):
    assert status_after(reason, losses_before=9, max_resumes=0) is CellStatus.WAITING


def test_every_loss_but_preemption_counts():
    lost = {reason for reason, outcome in OUTCOME_OF.items() if outcome is OutcomeKind.LOST}

    assert set(COUNTED_LOSSES) == lost - {Reason.PREEMPTED}
