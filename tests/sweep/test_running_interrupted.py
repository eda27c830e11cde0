"""A run that is interrupted or killed, or meets another: nothing is lost, nothing is left."""

import contextlib
import signal
import time

import psutil
import pytest
from waiting import within

from sweeper.errors import StudyBusy
from sweeper.store.store import StudyStore
from sweeper.sweep.stop_request import StopRequest
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.process_tree import MARKER

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


def processes_of(study):
    """Processes of any trial of the study, found by their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARKER, "").startswith(str(study.folder.path)):
                found.append(process)
    return found


class TestInterruption:
    def test_one_request_ends_trials_resumable(self, study, recorder, attempts, optuna_trials):
        study.behave({"baseline/0": ["slow", "complete"]})
        stop = StopRequest()

        end = study.run(observer=recorder(slot_started=stop.ask), stop=stop)

        assert end.status == 130
        assert end.counts == {"waiting": 2}
        assert attempts(study) == [("baseline/0", "cancelled", "user_cancelled")]
        assert optuna_trials(study)["baseline/0"].state.name == "RUNNING"
        assert processes_of(study) == []

    def test_the_next_run_takes_up_what_was_cancelled(self, study, recorder, optuna_trials):
        study.behave({"baseline/0": ["slow", "complete"]})
        stop = StopRequest()
        study.run(observer=recorder(progress=stop.ask), stop=stop)

        end = study.run()

        assert end.status == 0
        assert end.counts == {"completed": 2}
        assert optuna_trials(study)["baseline/0"].state.name == "COMPLETE"

    def test_what_was_cancelled_goes_on_from_the_checkpoint_made_then(
        self, study, recorder, trials
    ):
        study.behave({"baseline/0": ["slow", "complete"]})
        stop = StopRequest()
        study.run(observer=recorder(progress=stop.ask), stop=stop)
        assert trials(study)["baseline/0"]["windows"] == 1
        observer = recorder()

        study.run(observer=observer)

        assert observer.messages[0] == "baseline/0 goes on after window 1 of attempt 1"
        assert trials(study)["baseline/0"]["windows"] == 4

    def test_a_first_trial_that_goes_on_lets_the_others_in_after_its_first_update(
        self, study, recorder
    ):
        """It is not evaluated before its first update again: that was done when it began."""
        study.behave({"baseline/0": ["slow", "unhurried_later"]})
        stop = StopRequest()
        study.run(observer=recorder(progress=stop.ask), stop=stop)

        study.run(slots=2)

        with StudyStore.read(study.url) as store:
            (_, baseline), (half,) = store.attempts("baseline/0"), store.attempts("half/0")
        assert half["claimed_at"] < baseline["ended_at"]

    def test_a_second_request_kills_a_trial_that_does_not_listen(self, study, recorder, attempts):
        study.behave({"baseline/0": ["stubborn"]})
        stop = StopRequest()

        def ask_twice():
            stop.ask()
            stop.ask()

        began = time.monotonic()
        end = study.run(observer=recorder(progress=ask_twice), stop=stop)

        assert time.monotonic() - began < 8.0, "the grace of 30 s was not waited for"
        assert end.status == 130
        assert attempts(study) == [("baseline/0", "cancelled", "user_cancelled")]

    @pytest.mark.slow
    def test_ctrl_c_ends_a_coordinator_with_status_130(self, study, coordinator, attempts):
        study.behave({"baseline/0": ["slow"]})
        process = coordinator(study)
        within(30, lambda: processes_of(study))
        time.sleep(1.0)

        process.send_signal(signal.SIGINT)

        assert process.wait(20) == 130
        assert attempts(study) == [("baseline/0", "cancelled", "user_cancelled")]
        assert processes_of(study) == []


class TestKills:
    def test_a_killed_supervisor_costs_an_attempt_and_nothing_else(self, study, recorder, attempts):
        study.behave({"baseline/0": ["slow", "complete"]})
        heartbeat = study.folder.attempt(arm="baseline", seed=0, number=1) / "heartbeat.json"
        victims = []

        def kill_supervisor():
            if not victims:
                victims.append(Heartbeat.read(heartbeat).supervisor_pid)
                psutil.Process(victims[0]).kill()

        end = study.run(observer=recorder(progress=kill_supervisor))

        assert end.status == 0
        assert attempts(study)[:2] == [
            ("baseline/0", "lost", "worker_lost"),
            ("baseline/0", "completed", "budget_reached"),
        ]
        assert processes_of(study) == []

    @pytest.mark.slow
    def test_a_killed_coordinator_leaves_no_process_and_the_study_goes_on(
        self, study, coordinator, attempts, optuna_trials
    ):
        study.behave({"baseline/0": ["slow", "complete"]})
        process = coordinator(study)
        within(30, lambda: processes_of(study))
        time.sleep(1.0)

        process.kill()
        process.wait()
        within(10, lambda: not processes_of(study))
        end = study.run()

        assert end.status == 0
        assert attempts(study) == [
            ("baseline/0", "lost", "worker_lost"),
            ("baseline/0", "completed", "budget_reached"),
            ("half/0", "completed", "budget_reached"),
        ]
        assert optuna_trials(study)["baseline/0"].state.name == "COMPLETE"


class TestSeveralCoordinators:
    @pytest.mark.slow
    def test_two_that_start_together_run_every_cell_once(
        self, tmp_path, small, coordinator, attempts
    ):
        study = small(tmp_path, seeds="[0, 1, 2]")
        study.behave({})

        both = [coordinator(study), coordinator(study)]
        ends = sorted((process.wait(90), "StudyBusy" in process.stderr.read()) for process in both)

        assert ends[0] == (0, False)
        assert ends[1] in {(0, False), (1, True)}, "refused, or late: then there is nothing to do"
        assert len(attempts(study)) == 6
        assert {outcome for _, outcome, _ in attempts(study)} == {"completed"}

    @pytest.mark.slow
    def test_a_second_one_is_refused_by_the_process_that_runs_the_study(self, study, coordinator):
        study.behave({"baseline/0": ["slow"]})
        process = coordinator(study)
        within(30, lambda: processes_of(study))

        with pytest.raises(StudyBusy, match=f"process {process.pid} on "):
            study.run()
