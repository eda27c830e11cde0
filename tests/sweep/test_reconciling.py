"""Optuna after a repair says what our own record says."""

import contextlib
import sqlite3

import pytest

from sweeper.records import Reason
from sweeper.store.store import StudyStore
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.reconciling import reconcile

pytestmark = pytest.mark.costly


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


def test_the_value_is_the_lowest_loss_where_the_study_says_so(study, small, trials, optuna_trials):
    text = study.file.path.read_text()
    study.file.path.write_text(
        text.replace("selection: {", "selection: {checkpoint: best_validation, ")
    )
    best = small(study.place)
    best.behave({"half/0": ["best_half_way"]})

    best.run()

    told = optuna_trials(best)["half/0"]
    assert (told.value, told.intermediate_values) == (2.0, {0: 4.0, 1: 2.0, 2: 2.5})
    row = trials(best)["half/0"]
    assert row["validation_loss"] == 2.0
    assert row["best_path"] == "trials/half-0/attempts/1/best"


def test_the_value_is_the_last_loss_otherwise(study, optuna_trials):
    study.behave({"half/0": ["best_half_way"]})

    study.run()

    assert optuna_trials(study)["half/0"].value == 2.5


def test_cells_that_never_ran_stay_queued(mirrored):
    trials = mirrored({"baseline/0": ["code_error"]})

    assert trials["baseline/0"].state.name == "FAIL"
    assert trials["half/0"].state.name == "WAITING"
    assert trials["half/0"].params == {}


def test_a_completed_cell_whose_endpoint_is_lost_counts_as_without_a_result(study):
    study.run()
    with contextlib.closing(sqlite3.connect(study.folder.database)) as database:
        database.execute("DELETE FROM sweeper_evaluation WHERE cell = 'half/0'")
        database.commit()

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
        told = {trial.user_attrs["cell"]: trial for trial in second._study.get_trials()}

    assert told["half/0"].state.name == "FAIL"
    assert told["half/0"].user_attrs["reason"] == "result_missing"
    assert told["baseline/0"].state.name == "COMPLETE"
