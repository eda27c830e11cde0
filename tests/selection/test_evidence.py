from __future__ import annotations

import math

import pytest

from sweeper.records import OutcomeKind, Reason
from sweeper.selection.evidence import Arm, CellEvidence


@pytest.mark.parametrize(
    ("loss", "ending"),
    [
        (1.6, Reason.BUDGET_REACHED),
        (math.nan, Reason.NONFINITE_LOSS),
        (math.inf, Reason.NONFINITE_LOSS),
        (None, Reason.RESULT_MISSING),
    ],
)
def test_no_trial_is_complete_without_a_finite_loss(loss, ending):
    cell = CellEvidence(arm="half", seed=0, reason=Reason.BUDGET_REACHED, validation_loss=loss)

    assert cell.ending is ending
    assert cell.is_completed is (ending is Reason.BUDGET_REACHED)


@pytest.mark.parametrize(
    ("reason", "outcome", "is_missing"),
    [
        (None, None, True),
        (Reason.DIVERGED, OutcomeKind.STOPPED, False),
        (Reason.STALLED_UPDATES, OutcomeKind.STOPPED, False),
        (Reason.WALL_CLOCK, OutcomeKind.LIMITED, True),
        (Reason.KILLED, OutcomeKind.LOST, True),
        (Reason.CRASHED, OutcomeKind.FAILED, True),
        (Reason.DEADLINE, OutcomeKind.CANCELLED, True),
    ],
)
def test_only_a_stopped_trial_speaks_against_its_arm(reason, outcome, is_missing):
    cell = CellEvidence(arm="half", seed=0, reason=reason, validation_loss=1.6)

    assert cell.outcome is outcome
    assert cell.is_missing is is_missing
    assert cell.endpoint is None


def test_a_cell_that_is_left_out_was_not_run(make_study):
    study = make_study({"half": [1.59, None], "baseline": [1.60, 1.61]})

    assert study.cell("half", 1) == CellEvidence(arm="half", seed=1)
    assert [cell.seed for cell in study.cells_of("half")] == [0, 1]
    assert len(study.all_cells()) == 4


@pytest.mark.parametrize(
    ("last", "closed", "is_pending"),
    [
        (1.61, False, False),
        (Reason.DIVERGED, False, False),
        (Reason.KILLED, False, True),
        (None, False, True),
        (None, True, False),
    ],
)
def test_a_study_is_pending_while_a_trial_may_go_on(make_study, last, closed, is_pending):
    study = make_study({"half": [1.59, 1.58], "baseline": [1.60, last]}, closed=closed)

    assert study.is_pending is is_pending


def test_the_family_is_every_arm_but_the_baseline(make_study):
    study = make_study({"half": [1.5], "baseline": [1.6], "double": [1.7]})

    assert [arm.name for arm in study.rivals] == ["half", "double"]
    assert study.baseline == Arm(name="baseline", value=2e-4)


@pytest.mark.parametrize(("value", "number"), [(2e-4, 2e-4), ("bfloat16", None)])
def test_only_a_number_has_an_order(value, number):
    assert Arm(name="x", value=value).number == number


def test_digests_belong_to_windows():
    with pytest.raises(AssertionError):
        CellEvidence(arm="half", seed=0, records_read=(8,), record_digests=())
