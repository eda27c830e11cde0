"""Optuna after a repair says what our own record says."""

import contextlib

import pytest

from sweeper.records import Reason
from sweeper.store.store import StudyStore
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.reconciling import reconcile


@pytest.fixture
def mirrored(study):
    """Brings a fresh Optuna study in step with the record of a study that ran without one."""

    def mirror(behaviours):
        study.behave(behaviours)
        study.run()
        with (
            StudyStore.open(study.url) as store,
            contextlib.closing(
                OptunaStudy.open(
                    study.url, name="second", factor="learning_rate", cells=study.plan.cells
                )
            ) as second,
        ):
            second.enqueue(fingerprint="f0")
            reconcile(store, second)
            reconcile(store, second)
            return {trial.user_attrs["cell"]: trial for trial in second._study.get_trials()}

    return mirror


def test_endings_values_reasons_and_evaluations_come_from_our_record(mirrored):
    trials = mirrored({"half/0": ["stop"]})

    complete, stopped = trials["baseline/0"], trials["half/0"]
    assert (complete.state.name, complete.value) == ("COMPLETE", 2.5)
    assert complete.intermediate_values == {0: 4.0, 1: 2.5}
    assert (stopped.state.name, stopped.user_attrs["reason"]) == ("FAIL", Reason.DIVERGED)
    assert stopped.intermediate_values == {0: 4.0}


def test_cells_that_never_ran_stay_queued(mirrored):
    trials = mirrored({"baseline/0": ["code_error"]})

    assert trials["baseline/0"].state.name == "FAIL"
    assert trials["half/0"].state.name == "WAITING"
    assert trials["half/0"].params == {}
