"""A study from its first run to its last: real database, real Optuna, real child processes."""

import sqlite3

import pytest

from sweeper.errors import StoreError, UserError
from sweeper.store.store import StudyStore
from sweeper.sweep import running, slot_loop
from sweeper.sweep.running import run_study
from sweeper.sweep.stop_request import StopRequest
from sweeper.training.report import ModelReport

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


def execute(study, statement):
    connection = sqlite3.connect(study.folder.database)
    connection.execute(statement)
    connection.commit()
    connection.close()


class TestOutcomes:
    def test_every_cell_of_a_study_completes_in_plan_order(
        self, study, recorder, trials, optuna_trials
    ):
        observer = recorder()

        end = study.run(observer=observer)

        assert end.status == 0
        assert end.counts == {"completed": 2}
        assert observer.started == [("baseline/0", 1), ("half/0", 1)]
        assert trials(study)["half/0"]["validation_loss"] == 2.5
        told = optuna_trials(study)["half/0"]
        assert told.state.name == "COMPLETE"
        assert told.value == 2.5
        assert told.params == {"learning_rate": 1e-4}
        assert told.intermediate_values == {0: 4.0, 1: 2.5}

    def test_a_finished_study_run_again_does_nothing_and_says_so(self, study, recorder, attempts):
        study.run()
        observer = recorder()

        end = study.run(observer=observer)

        assert end.did_nothing
        assert end.status == 0
        assert observer.started == []
        assert len(attempts(study)) == 2

    def test_a_stopped_arm_is_a_result_and_the_study_is_done(self, study, optuna_trials):
        study.behave({"half/0": ["stop"]})

        end = study.run()

        assert end.status == 0
        assert end.counts == {"completed": 1, "stopped": 1}
        told = optuna_trials(study)["half/0"]
        assert told.state.name == "FAIL"
        assert told.user_attrs["reason"] == "diverged"
        assert told.user_attrs["outcome"] == "stopped"
        assert told.user_attrs["detail"] == "rose by 2 nats"
        assert told.user_attrs["evidence"]["exit_status"] == "0"
        assert told.params == {"learning_rate": 1e-4}

    @pytest.mark.parametrize(
        ("behaviour", "reason"),
        [
            ("late_error", "code_error"),
            ("nan_result", "result_missing"),
            ("no_weights", "result_missing"),
        ],
    )
    def test_a_trial_that_fails_later_on_fails_alone(
        self, study, trials, optuna_trials, behaviour, reason
    ):
        study.behave({"baseline/0": [behaviour]})

        end = study.run()

        assert end.status == 3
        assert end.ended_early is None
        assert end.counts == {"failed": 1, "completed": 1}
        assert trials(study)["baseline/0"]["reason"] == reason
        assert optuna_trials(study)["baseline/0"].state.name == "FAIL"

    def test_a_lost_attempt_stays_on_record_and_starts_over(self, study, attempts, optuna_trials):
        study.behave({"half/0": ["killed", "complete"]})

        end = study.run()

        assert end.status == 0
        assert attempts(study) == [
            ("baseline/0", "completed", "budget_reached"),
            ("half/0", "lost", "killed"),
            ("half/0", "completed", "budget_reached"),
        ]
        assert optuna_trials(study)["half/0"].state.name == "COMPLETE"

    def test_a_lost_attempt_is_gone_on_from_its_checkpoint(
        self, study, recorder, trials, attempts, optuna_trials
    ):
        study.behave({"half/0": ["killed_after_a_checkpoint", "complete"]})
        observer = recorder()

        study.run(observer=observer)

        assert attempts(study)[1:] == [
            ("half/0", "lost", "killed"),
            ("half/0", "completed", "budget_reached"),
        ]
        assert observer.messages == ["half/0 goes on after window 1 of attempt 1"]
        with StudyStore.read(study.url) as store:
            updates = store.updates("half/0")
            (row,) = store.trials("half/0")
        assert [(u["window"], u["attempt"]) for u in updates] == [(1, 1), (2, 2), (3, 2), (4, 2)]
        assert (row["windows"], row["target_tokens_read"], row["validation_loss"]) == (4, 40, 2.5)
        assert (row["initial_loss"], row["first_window_loss"]) == (4.0, 3.5)
        told = optuna_trials(study)["half/0"]
        assert (told.value, told.intermediate_values) == (2.5, {0: 4.0, 1: 2.5})

    def test_a_cell_that_comes_further_each_time_is_resumed_more_often_than_allowed_otherwise(
        self, study, attempts
    ):
        """The study allows one resume without progress."""
        study.behave({"half/0": [*["killed_after_a_checkpoint"] * 3, "complete"]})

        end = study.run()

        assert end.counts == {"completed": 2}
        assert [outcome for trial, outcome, _ in attempts(study) if trial == "half/0"] == [
            "lost",
            "lost",
            "lost",
            "completed",
        ]

    def test_an_attempt_that_finds_no_checkpoint_says_that_it_starts_over(self, study, recorder):
        study.behave({"half/0": ["killed", "complete"]})
        observer = recorder()

        study.run(observer=observer)

        assert observer.messages == ["half/0 starts over: there was no checkpoint to go on from"]

    def test_a_cell_lost_more_often_than_allowed_ends_as_lost(self, study, attempts, optuna_trials):
        """The study allows one resume."""
        study.behave({"half/0": ["killed"]})

        end = study.run()

        assert end.status == 3
        assert end.counts == {"completed": 1, "lost": 1}
        assert len(attempts(study)) == 3
        assert optuna_trials(study)["half/0"].state.name == "FAIL"
        assert optuna_trials(study)["half/0"].user_attrs["outcome"] == "lost"


class TestEndingEarly:
    def test_a_stopped_baseline_leaves_the_rest_not_run(self, tmp_path, small, optuna_trials):
        study = small(tmp_path, seeds="[0, 1]")
        study.behave({"baseline/0": ["stop"]})

        end = study.run()

        assert end.status == 3
        assert end.counts == {"stopped": 1, "not_run": 3}
        assert end.ended_early == (
            "baseline_failed: baseline/0 was stopped (diverged): rose by 2 nats"
        )
        assert optuna_trials(study)["half/1"].state.name == "WAITING"

    def test_a_study_that_ended_early_stays_ended(self, tmp_path, small, attempts):
        study = small(tmp_path, seeds="[0, 1]")
        study.behave({"baseline/0": ["stop"]})
        study.run()

        end = study.run()

        assert end.did_nothing
        assert end.status == 3
        assert len(attempts(study)) == 1

    def test_trials_that_run_when_the_baseline_is_stopped_finish(self, tmp_path, small, trials):
        study = small(tmp_path, seeds="[0, 1]")
        study.behave({"baseline/0": ["complete"], "half/0": ["unhurried"], "baseline/1": ["stop"]})

        end = study.run(slots=2)

        assert end.counts == {"completed": 2, "stopped": 1, "not_run": 1}
        assert trials(study)["half/0"]["outcome"] == "completed"
        assert trials(study)["half/1"]["status"] == "not_run"

    def test_a_study_that_never_ends_early_goes_on_without_its_baseline(self, tmp_path, small):
        study = small(tmp_path, rule="never")
        study.behave({"baseline/0": ["stop"]})

        end = study.run()

        assert end.counts == {"stopped": 1, "completed": 1}
        assert end.status == 3

    def test_a_first_trial_that_cannot_start_ends_the_study(
        self, tmp_path, small, optuna_trials, recorder
    ):
        study = small(tmp_path, seeds="[0, 1]")
        study.behave({"baseline/0": ["code_error"]})
        observer = recorder()

        end = study.run(slots=2, observer=observer)

        assert end.status == 3
        assert end.counts == {"failed": 1, "not_run": 3}
        assert end.ended_early == (
            "the first trial failed: baseline/0 (code_error): KeyError: 'q_proj'"
        )
        assert observer.started == [("baseline/0", 1)]
        assert optuna_trials(study)["baseline/0"].user_attrs["reason"] == "code_error"

    def test_the_first_trial_runs_alone_until_its_first_update(self, study):
        study.behave({"baseline/0": ["unhurried"]})

        study.run(slots=2)

        with StudyStore.read(study.url) as store:
            first_update = store.updates("baseline/0")[0]["at"]
            (baseline,) = store.attempts("baseline/0")
            (half,) = store.attempts("half/0")
        assert first_update < half["claimed_at"] < baseline["ended_at"]

    def test_the_first_trial_of_a_resumed_study_runs_alone_too(self, study, recorder):
        """Nothing has ended, so nothing has shown that trials of the study can run."""
        study.behave({"baseline/0": ["slow", "code_error"]})
        stop = StopRequest()
        study.run(observer=recorder(progress=stop.ask), stop=stop)
        observer = recorder()

        end = study.run(slots=2, observer=observer)

        assert observer.started == [("baseline/0", 2)]
        assert end.counts == {"failed": 1, "not_run": 1}


class TestDatabaseTrouble:
    def test_a_database_that_refuses_events_ends_no_trial(self, study, recorder, attempts):
        """The trigger is a real refusal by SQLite; it goes with the first complaint."""
        study.run(stop=_asked())
        execute(
            study,
            "CREATE TRIGGER refuse BEFORE INSERT ON sweeper_update "
            "BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        observer = recorder(message=lambda: execute(study, "DROP TRIGGER IF EXISTS refuse"))

        end = study.run(observer=observer)

        assert end.status == 0
        assert "did not take its events" in observer.messages[0]
        assert len(attempts(study)) == 2
        with StudyStore.read(study.url) as store:
            assert len(store.updates("baseline/0")) == 4

    def test_a_result_that_could_not_be_recorded_is_adopted_by_the_next_run(
        self, study, attempts, monkeypatch, optuna_trials
    ):
        monkeypatch.setattr(slot_loop, "PAUSES_SECONDS", (0.0,))
        study.run(stop=_asked())
        execute(
            study,
            "CREATE TRIGGER refuse BEFORE UPDATE OF outcome ON sweeper_attempt "
            "BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        with pytest.raises(StoreError, match="no"):
            study.run()
        execute(study, "DROP TRIGGER refuse")

        end = study.run()

        assert end.status == 0
        assert attempts(study) == [
            ("baseline/0", "completed", "budget_reached"),
            ("half/0", "completed", "budget_reached"),
        ]
        assert optuna_trials(study)["baseline/0"].value == 2.5


def _asked():
    """A stop request that stands from the beginning: the study is founded and no more."""
    stop = StopRequest()
    stop.ask()
    return stop


def test_cells_claimed_in_reverse_order_come_to_the_same_results(tmp_path, small, trials, recorder):
    forwards, backwards = small(tmp_path / "a"), small(tmp_path / "b")
    observer = recorder()

    forwards.run(slots=2)
    backwards.run(reverse=True, observer=observer)

    assert observer.started == [("half/0", 1), ("baseline/0", 1)]
    losses = [
        {cell: row["validation_loss"] for cell, row in trials(study).items()}
        for study in (forwards, backwards)
    ]
    assert losses[0] == losses[1]


def test_a_device_that_is_too_few_for_one_more_trial_is_told_of(study, recorder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
    run = study.file.study.run.model_copy(update={"devices_per_trial": 2})
    study.folder.prepared.mkdir(parents=True, exist_ok=True)
    study.folder.model_report.write_text(MODEL.to_json())
    observer = recorder()

    slots = running._slots_here(run, study.folder, observer)

    assert [slot.device for slot in slots] == ["5,6"]
    assert observer.messages == ["not used, for a trial takes 2 devices: 7"]


MODEL = ModelReport(
    parameters=1,
    trainable_parameters=1,
    adapted_modules=(),
    embedding_rows=1,
    max_positions=None,
    tied_embeddings=False,
)


class TestPreparing:
    @pytest.mark.slow
    def test_records_that_are_not_there_are_the_users_to_mend_and_nothing_is_recorded(self, study):
        with pytest.raises(UserError, match=r"t\.jsonl|models/none"):
            run_study(study.file)

        assert not study.folder.database.exists()

    @pytest.mark.slow
    def test_a_preparation_that_ctrl_c_ended_is_an_interruption(self, study):
        """The signal reaches the preparing child too, which then fails."""
        end = run_study(study.file, stop=_asked())

        assert end.status == 130
        assert end.counts == {}
