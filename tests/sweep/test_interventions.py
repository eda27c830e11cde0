"""What a user changes by hand, on real studies, and what the next run makes of it."""

import contextlib

import optuna
import pytest

from sweeper.errors import StudyBusy, StudyConflict
from sweeper.store.store import StudyStore
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.interventions import (
    amend_limits,
    cancel_trial,
    close_study,
    retry_trial,
)
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.stop_request import StopRequest

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


@pytest.fixture
def retry():
    return lambda study, trial: retry_trial(
        study.file, study.folder, trial, observer=SilentObserver()
    )


@pytest.fixture
def cancel():
    return lambda study, trial: cancel_trial(
        study.file, study.folder, trial, observer=SilentObserver()
    )


@pytest.fixture
def close():
    return lambda study: close_study(study.file, study.folder, observer=SilentObserver())


@pytest.fixture
def told():
    """Reads every Optuna trial of a small study, the first one first."""

    def read(study):
        storage = optuna.storages.RDBStorage(study.url)
        found = optuna.load_study(study_name="small", storage=storage).get_trials()
        storage.remove_session()
        storage.engine.dispose()
        return found

    return read


@pytest.fixture
def ask_at_start(recorder):
    """Returns a wish to end, and an observer that utters it once a trial has begun."""
    stop = StopRequest()
    return stop, recorder(slot_started=stop.ask)


class TestRetry:
    def test_a_failed_trial_begins_anew_and_the_study_goes_on(
        self, study, retry, told, trials, attempts
    ):
        study.behave({"half/0": ["late_error", "complete"]})
        study.run()

        reopened = retry(study, "half/0")

        assert (reopened.outcome, reopened.reason) == ("failed", "code_error")
        assert reopened.from_the_start
        row = trials(study)["half/0"]
        assert (row["status"], row["outcome"], row["attempts"]) == ("waiting", None, 1)
        with StudyStore.read(study.url) as store:
            assert store.study().ended_why is None
            assert store.cells()[1].optuna_number == 2

        end = study.run()

        assert (end.status, end.counts) == (0, {"completed": 2})
        assert attempts(study)[1:] == [
            ("half/0", "failed", "code_error"),
            ("half/0", "completed", "budget_reached"),
        ]
        _, failed, again = told(study)
        assert (failed.state.name, failed.user_attrs["reason"]) == ("FAIL", "code_error")
        assert (again.state.name, again.value) == ("COMPLETE", 2.5)
        assert again.user_attrs["retry_of"] == 1
        assert again.user_attrs["cell"] == "half/0"
        assert again.user_attrs["fingerprint"] == failed.user_attrs["fingerprint"]

    def test_a_lost_trial_goes_on_from_its_checkpoint_with_fresh_resumes(
        self, study, retry, told, attempts, trials
    ):
        """One resume is allowed, so that a second loss is one too many."""
        lost = ["killed_after_a_checkpoint", "killed"]
        study.behave({"half/0": [*lost, "killed", "complete"]})
        study.run()
        assert trials(study)["half/0"]["outcome"] == "lost"
        before = len(attempts(study))

        reopened = retry(study, "half/0")
        end = study.run()

        assert not reopened.from_the_start
        assert (end.status, len(attempts(study)) - before) == (0, 2)
        with StudyStore.read(study.url) as store:
            last = store.attempts("half/0")[-1]
        assert (last["resumed_from_attempt"], last["resumed_after_window"]) == (1, 1)
        assert [trial.state.name for trial in told(study)] == ["COMPLETE", "FAIL", "COMPLETE"]

    def test_a_failed_trial_takes_nothing_over_from_a_checkpoint_before_it_failed(
        self, study, retry
    ):
        study.behave({"half/0": ["killed_after_a_checkpoint", "late_error", "killed", "complete"]})
        study.run()

        retry(study, "half/0")
        study.run()

        with StudyStore.read(study.url) as store:
            beginnings = [row["resumed_from_attempt"] for row in store.attempts("half/0")]
        assert beginnings == [None, 1, None, None]

    @pytest.mark.parametrize(
        ("behaviour", "got"),
        [("complete", "completed (budget_reached)"), ("stop", "stopped (diverged)")],
    )
    def test_a_result_is_not_retried(self, study, retry, told, behaviour, got):
        study.behave({"half/0": [behaviour]})
        study.run()

        with pytest.raises(StudyConflict, match="is not retried: ") as refused:
            retry(study, "half/0")

        assert (refused.value.faults[0].where, refused.value.faults[0].got) == ("half/0", got)
        assert len(told(study)) == 2

    def test_a_trial_that_waits_is_not_retried(self, study, retry, ask_at_start):
        stop, observer = ask_at_start
        study.behave({"baseline/0": ["slow"]})
        study.run(stop=stop, observer=observer)

        with pytest.raises(StudyConflict, match="it has not ended"):
            retry(study, "half/0")

    def test_it_is_refused_while_a_coordinator_runs(self, study, retry):
        study.behave({"half/0": ["late_error"]})
        study.run()

        with (
            only_coordinator(study.folder) as owner,
            pytest.raises(StudyBusy, match=f"process {owner.pid} on"),
        ):
            retry(study, "half/0")

    def test_after_a_first_trial_that_failed_the_cells_left_out_run_too(self, study, retry):
        study.behave({"baseline/0": ["code_error", "complete"]})
        assert study.run().counts == {"failed": 1, "not_run": 1}

        retry(study, "baseline/0")

        assert study.run().counts == {"completed": 2}

    def test_a_new_trial_that_was_not_queued_is_queued_by_the_next_run(self, study, told):
        study.behave({"half/0": ["late_error", "complete"]})
        study.run()
        with StudyStore.open(study.url) as store:
            store.reopen("half/0", from_the_start=True)

        study.run()

        assert [trial.state.name for trial in told(study)] == ["COMPLETE", "FAIL", "COMPLETE"]


class TestCancel:
    @pytest.fixture
    def interrupted(self, study, ask_at_start):
        """A study whose baseline was interrupted, and whose other cell was never begun."""
        stop, observer = ask_at_start
        study.behave({"baseline/0": ["slow", "complete"]})
        study.run(stop=stop, observer=observer)
        return study

    def test_a_cancelled_trial_is_left_out_and_optuna_keeps_it_open(
        self, interrupted, cancel, told
    ):
        cancel(interrupted, "half/0")

        end = interrupted.run()

        assert (end.status, end.counts) == (3, {"completed": 1, "cancelled": 1})
        assert [trial.state.name for trial in told(interrupted)] == ["COMPLETE", "WAITING"]

    def test_a_cancelled_trial_that_is_retried_keeps_its_optuna_trial(
        self, interrupted, cancel, retry, told
    ):
        cancel(interrupted, "baseline/0")
        retry(interrupted, "baseline/0")

        assert interrupted.run().counts == {"completed": 2}
        assert [trial.state.name for trial in told(interrupted)] == ["COMPLETE", "COMPLETE"]

    def test_a_trial_that_has_ended_is_not_cancelled(self, study, cancel):
        study.run()

        with pytest.raises(StudyConflict, match="does not wait"):
            cancel(study, "half/0")

    def test_a_closed_study_has_told_optuna_why_every_cell_ended(
        self, interrupted, close, trials, told
    ):
        assert close(interrupted) == ("baseline/0", "half/0")

        rows = trials(interrupted)
        assert {row["reason"] for row in rows.values()} == {"user_cancelled"}
        assert {trial.state.name for trial in told(interrupted)} == {"FAIL"}
        assert {trial.user_attrs["reason"] for trial in told(interrupted)} == {"user_cancelled"}
        assert told(interrupted)[1].params == {"learning_rate": 1e-4}
        with StudyStore.read(interrupted.url) as store:
            assert store.study().ended_why == "the user closed the study"

    def test_in_a_closed_study_nothing_runs_any_more(self, interrupted, close, retry):
        close(interrupted)

        assert close(interrupted) == ()
        assert interrupted.run().did_nothing
        with pytest.raises(StudyConflict, match="the study is closed"):
            retry(interrupted, "half/0")

    def test_cells_that_were_not_run_stay_so_and_optuna_hears_it_when_the_study_closes(
        self, study, close, told, trials
    ):
        study.behave({"baseline/0": ["code_error"]})
        study.run()

        assert close(study) == ()

        assert trials(study)["half/0"]["status"] == "not_run"
        left_out = told(study)[1]
        assert (left_out.state.name, left_out.user_attrs["reason"]) == ("FAIL", "not_run")
        assert left_out.user_attrs["detail"].startswith("the first trial failed: baseline/0")

    def test_what_a_dead_coordinator_left_is_put_on_record_first(self, study, close, attempts):
        study.run()
        with StudyStore.open(study.url) as store:
            store.reopen("half/0", from_the_start=True)
            with contextlib.ExitStack() as gone:
                owner = gone.enter_context(only_coordinator(study.folder))
                store.claim(owner, "cpu 0")

        assert close(study) == ("half/0",)
        assert attempts(study)[-1] == ("half/0", "lost", "worker_lost")


class TestAmend:
    @pytest.fixture
    def limited(self, study, small):
        """A study of 1 s for each trial; the other cell's first attempt takes longer."""
        text = study.file.path.read_text()
        study.file.path.write_text(
            text.replace("max_resumes: 1", "max_resumes: 1, limits: {wall_clock: 1s}")
        )
        found = small(study.place)
        found.behave({"half/0": ["slow", "complete"]})
        assert found.run().counts == {"completed": 1, "limited": 1}
        return found

    @pytest.fixture
    def amend(self):
        return lambda study, **limits: amend_limits(
            study.file, study.folder, limits, observer=SilentObserver()
        )

    def test_a_limited_trial_goes_on_from_its_checkpoint_under_the_raised_limit(
        self, limited, amend, told
    ):
        assert amend(limited, wall_clock="1h") == ("half/0",)

        assert limited.run().counts == {"completed": 2}
        with StudyStore.read(limited.url) as store:
            assert store.amended_limits() == {"wall_clock": "1h"}
            last = store.attempts("half/0")[-1]
        assert (last["resumed_from_attempt"], last["resumed_after_window"]) == (1, 1)
        _, before, after = told(limited)
        assert (before.state.name, before.user_attrs["reason"]) == ("FAIL", "wall_clock")
        assert (after.state.name, after.user_attrs["retry_of"]) == ("COMPLETE", 1)

    @pytest.mark.parametrize("now", ["1s", "1h"])
    def test_the_study_file_may_say_the_old_limit_or_the_new_one(self, limited, amend, small, now):
        amend(limited, wall_clock="1h")
        text = limited.file.path.read_text()
        limited.file.path.write_text(text.replace("wall_clock: 1s", f"wall_clock: {now}"))

        assert small(limited.place).run().counts == {"completed": 2}

    def test_a_third_limit_in_the_study_file_is_refused(self, limited, amend, small):
        amend(limited, wall_clock="1h")
        text = limited.file.path.read_text()
        limited.file.path.write_text(text.replace("wall_clock: 1s", "wall_clock: 2h"))

        with pytest.raises(StudyConflict, match=r"run\.limits\.wall_clock"):
            small(limited.place).run()

    def test_another_limit_than_the_one_that_ended_a_trial_lets_none_go_on(self, limited, amend):
        assert amend(limited, hang="20m") == ()

    def test_a_limited_trial_is_not_retried_without_an_amendment(self, limited, retry):
        with pytest.raises(StudyConflict, match="sweeper amend STUDY"):
            retry(limited, "half/0")

    def test_limits_are_raised_from_where_they_are_now(self, limited, amend):
        amend(limited, wall_clock="1h")

        with pytest.raises(StudyConflict, match="more than 1h"):
            amend(limited, wall_clock="30m")
