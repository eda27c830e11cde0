"""The mirror in Optuna, read back through Optuna's own interface and command line."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from sweeper.records import OutcomeKind, Reason
from sweeper.study.plan import Cell
from sweeper.sweep.optuna_study import Ending, OptunaStudy, distribution_of

CELLS = (
    Cell(id="baseline/0", arm="baseline", seed=0, value=2e-4),
    Cell(id="double/0", arm="double", seed=0, value=4e-4),
)
COMPLETED = Ending(
    outcome=OutcomeKind.COMPLETED,
    reason=Reason.BUDGET_REACHED,
    detail="done",
    evidence={"window": "4"},
    validation_loss=1.25,
)
STOPPED = Ending(
    outcome=OutcomeKind.STOPPED,
    reason=Reason.NONFINITE_LOSS,
    detail="the loss of window 3 is nan",
    evidence={"window": "3"},
    validation_loss=None,
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def mirror(url):
    study = OptunaStudy.open(url, name="rates", factor="learning_rate", cells=CELLS)
    study.enqueue(fingerprint="f0")
    yield study
    study.close()


@pytest.fixture
def loaded(mirror, url):
    """Reads the trials as any user of Optuna would."""
    storages = []

    def read():
        storage = optuna.storages.RDBStorage(url)
        storages.append(storage)
        return optuna.load_study(study_name="rates", storage=storage).get_trials()

    yield read
    for storage in storages:
        storage.remove_session()
        storage.engine.dispose()


def test_cells_are_queued_in_plan_order_with_what_they_are(loaded):
    trials = loaded()

    assert [trial.state.name for trial in trials] == ["WAITING", "WAITING"]
    assert [trial.user_attrs for trial in trials] == [
        {"cell": "baseline/0", "arm": "baseline", "seed": 0, "fingerprint": "f0"},
        {"cell": "double/0", "arm": "double", "seed": 0, "fingerprint": "f0"},
    ]
    assert trials[1].system_attrs == {"fixed_params": {"learning_rate": 4e-4}}


def test_a_repeat_says_what_it_repeats_and_belongs_to_no_arm(url):
    repeat = Cell(
        id="baseline/0~repeat", arm="baseline~repeat", seed=0, value=2e-4, repeats="baseline/0"
    )
    study = OptunaStudy.open(
        url, name="rates", factor="learning_rate", cells=(CELLS[0], repeat, CELLS[1])
    )
    study.enqueue(fingerprint="f0")
    study.close()
    storage = optuna.storages.RDBStorage(url)

    queued = optuna.load_study(study_name="rates", storage=storage).get_trials()

    assert queued[1].user_attrs == {
        "cell": "baseline/0~repeat",
        "arm": "baseline~repeat",
        "seed": 0,
        "fingerprint": "f0",
        "repeat_of": "baseline/0",
    }
    assert ["repeat_of" in trial.user_attrs for trial in queued] == [False, True, False]
    storage.remove_session()
    storage.engine.dispose()


def test_queueing_again_adds_nothing(mirror, loaded):
    mirror.enqueue(fingerprint="f0")

    assert len(loaded()) == 2


def test_a_queue_that_was_cut_short_is_completed(url):
    first = OptunaStudy.open(url, name="rates", factor="learning_rate", cells=CELLS[:1])
    first.enqueue(fingerprint="f0")
    first.close()
    second = OptunaStudy.open(url, name="rates", factor="learning_rate", cells=CELLS)
    second.enqueue(fingerprint="f0")

    assert second.numbers() == {"baseline/0": 0, "double/0": 1}
    second.close()


def test_a_trial_that_somebody_else_added_is_left_alone(mirror, url):
    storage = optuna.storages.RDBStorage(url)
    optuna.load_study(study_name="rates", storage=storage).enqueue_trial({"x": 1.0})

    mirror.enqueue(fingerprint="f0")

    assert mirror.numbers() == {"baseline/0": 0, "double/0": 1}
    storage.remove_session()
    storage.engine.dispose()


def test_a_started_cell_is_running_with_its_exact_rate_and_the_other_is_not(mirror, loaded):
    mirror.start("double/0")

    waiting, running = loaded()
    assert waiting.state.name == "WAITING"
    assert running.state.name == "RUNNING"
    assert running.params == {"learning_rate": 4e-4}
    assert running.distributions == {"learning_rate": FloatDistribution(1e-12, 1e6, log=True)}


def test_starting_again_changes_nothing(mirror, loaded):
    mirror.start("double/0")
    began = loaded()[1].datetime_start
    mirror.start("double/0")

    assert loaded()[1].datetime_start == began


def test_a_start_cut_short_before_the_parameter_is_completed(mirror, loaded, url):
    storage = optuna.storages.RDBStorage(url)
    storage.set_trial_state_values(1, optuna.trial.TrialState.RUNNING)
    storage.remove_session()
    storage.engine.dispose()

    mirror.start("baseline/0")

    assert loaded()[0].params == {"learning_rate": 2e-4}


def test_only_finite_losses_are_reported(mirror, loaded):
    mirror.start("baseline/0")
    mirror.report("baseline/0", index=0, validation_loss=3.5)
    mirror.report("baseline/0", index=1, validation_loss=float("nan"))
    mirror.report("baseline/0", index=2, validation_loss=float("inf"))

    assert loaded()[0].intermediate_values == {0: 3.5}


def test_a_restarted_attempts_loss_takes_the_place_of_the_lost_ones(mirror, loaded):
    mirror.start("baseline/0")
    mirror.report("baseline/0", index=0, validation_loss=3.5)
    mirror.report("baseline/0", index=0, validation_loss=3.25)

    assert loaded()[0].intermediate_values == {0: 3.25}


def test_a_completed_cell_carries_its_validation_loss(mirror, loaded):
    mirror.start("baseline/0")
    mirror.end("baseline/0", COMPLETED)

    trial = loaded()[0]
    assert (trial.state.name, trial.value) == ("COMPLETE", 1.25)
    assert trial.user_attrs["evidence"] == {"window": "4"}


def test_a_stopped_cell_fails_with_its_reason_and_without_a_value(mirror, loaded):
    mirror.end("double/0", STOPPED)

    trial = loaded()[1]
    assert (trial.state.name, trial.value) == ("FAIL", None)
    assert trial.params == {"learning_rate": 4e-4}
    assert trial.user_attrs == {
        "cell": "double/0",
        "arm": "double",
        "seed": 0,
        "fingerprint": "f0",
        "outcome": "stopped",
        "reason": "nonfinite_loss",
        "detail": "the loss of window 3 is nan",
        "evidence": {"window": "3"},
    }


def test_what_was_told_once_stays(mirror, loaded):
    mirror.end("double/0", STOPPED)
    mirror.end("double/0", COMPLETED)
    mirror.start("double/0")
    mirror.report("double/0", index=3, validation_loss=1.0)

    trial = loaded()[1]
    assert (trial.state.name, trial.value, trial.intermediate_values) == ("FAIL", None, {})
    assert trial.user_attrs["reason"] == "nonfinite_loss"
    assert mirror.has_ended("double/0")


def test_optunas_command_line_lists_states_rates_and_reasons(mirror, url):
    mirror.end("baseline/0", COMPLETED)
    mirror.end("double/0", STOPPED)

    listed = subprocess.run(
        [
            Path(sys.executable).with_name("optuna"),
            *("trials", "--study-name", "rates", "--storage", url, "--format", "json"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )

    baseline, double = json.loads(listed.stdout)
    assert (baseline["state"], baseline["value"]) == ("COMPLETE", 1.25)
    assert double["state"] == "FAIL"
    assert double["params"] == {"learning_rate": 4e-4}
    assert double["user_attrs"]["reason"] == "nonfinite_loss"


def test_opening_a_study_prints_nothing_and_leaves_optunas_logging_as_it_was(url, capfd):
    level = logging.getLogger("optuna").level

    OptunaStudy.open(url, name="rates", factor="learning_rate", cells=CELLS).close()
    OptunaStudy.open(url, name="rates", factor="learning_rate", cells=CELLS).close()

    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("optuna").level == level


def test_a_factor_of_words_is_a_category():
    cells = [
        Cell(id=f"{arm}/0", arm=arm, seed=0, value=value)
        for arm, value in (("baseline", "float32"), ("half", "bfloat16"))
    ]

    assert distribution_of(cells) == CategoricalDistribution(["float32", "bfloat16"])
