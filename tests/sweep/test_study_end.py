"""The exit status of a run and the counts it reports."""

import pytest

from sweeper.records import OutcomeKind, Reason
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.sweep.study_end import count, run_status


def cell(arm, status, outcome=None):
    return CellRecord(
        cell=f"{arm}/0",
        arm=arm,
        seed=0,
        value=1e-4,
        status=status,
        outcome=outcome,
        reason=Reason.KILLED if outcome else None,
        detail=None,
        attempts=1,
        optuna_number=None,
    )


def ended(arm, outcome):
    return cell(arm, CellStatus.ENDED, outcome)


COMPLETED_BASELINE = ended("baseline", OutcomeKind.COMPLETED)
WAITING = cell("half", CellStatus.WAITING)


@pytest.mark.parametrize("outcome", [OutcomeKind.COMPLETED, OutcomeKind.STOPPED])
@pytest.mark.parametrize("arm", ["half", "baseline~repeat"])
def test_a_study_whose_other_cells_completed_or_were_stopped_is_done(arm, outcome):
    assert run_status([COMPLETED_BASELINE, ended(arm, outcome)], interrupted=False) == 0


@pytest.mark.parametrize(
    "other",
    [
        ended("baseline", OutcomeKind.STOPPED),
        ended("half", OutcomeKind.LIMITED),
        ended("half", OutcomeKind.LOST),
        ended("half", OutcomeKind.FAILED),
        cell("half", CellStatus.NOT_RUN),
        ended("baseline~repeat", OutcomeKind.FAILED),
        WAITING,
    ],
)
def test_any_other_cell_means_that_the_study_did_not_meet_its_criteria(other):
    assert run_status([COMPLETED_BASELINE, other], interrupted=False) == 3


def test_an_interrupted_study_with_open_cells_goes_on_later():
    assert run_status([COMPLETED_BASELINE, WAITING], interrupted=True) == 130


def test_a_study_that_ended_although_it_was_asked_to_stop_counts_as_it_ended():
    assert run_status([COMPLETED_BASELINE], interrupted=True) == 0


def test_cells_count_by_outcome_and_by_status_where_they_have_none():
    cells = [COMPLETED_BASELINE, ended("half", OutcomeKind.COMPLETED), WAITING]

    assert count(cells) == {"completed": 2, "waiting": 1}
