"""An attempt on an engine that says, or does not say, what the tests want; no job is started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from waiting import within

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import last_seen
from sweeper.workers.handover import Request, SubmittedJob, read_job, read_request, take, write_job
from sweeper.workers.launchers import engine_running
from sweeper.workers.launchers.engine import EngineSilent, Job, JobState, Patience, job_name
from sweeper.workers.launchers.engine_launcher import EngineLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause

SLOT = Slot(name="pretended 1", device=None, engine=True)
LIMITS = TrialLimits(checkpoint_seconds=0.0)
PATIENCE = Patience(file_seconds=0.1, silence_seconds=0.2, obey_seconds=0.1, engine_seconds=0.2)


class Pretended:
    """An engine: says of every job what it was told to say."""

    kind = "pretended"

    def __init__(self):
        self.state, self.detail = JobState.WAITING, "all is said"
        self.submitted, self.cancelled = [], []
        self.troubles = []
        self.known = {}

    def submit(self, *, name, folder, command):
        if self.troubles:
            raise self.troubles.pop(0)
        self.submitted.append((name, command))
        return "17"

    def look(self, job_id):
        assert job_id == "17"
        return Job(state=self.state, detail=self.detail)

    def find(self, name):
        return self.known.get(name)

    def cancel(self, job_id):
        self.cancelled.append(job_id)

    def close(self):
        """Nothing to give back."""


@pytest.fixture
def engine():
    return Pretended()


@pytest.fixture
def launcher(engine):
    return EngineLauncher(engine, patience=PATIENCE)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "runs" / "my study" / "trials" / "double-2" / "attempts" / "1"
    path.mkdir(parents=True)
    return AttemptFolder(path)


def looked_at_for(seconds, running):
    """Polls all the time; returns what came last."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        last = running.poll()
        time.sleep(0.01)
    return last


def test_a_name_says_which_attempt_of_which_study_and_of_which_run_folder(folder, tmp_path):
    same_name = AttemptFolder(tmp_path / "other" / Path(*folder.path.parts[-6:]))

    name = job_name(folder)

    assert name.startswith("sweeper-my-study-double-2-1-")
    assert len(name) == len("sweeper-my-study-double-2-1-") + 8
    assert job_name(same_name)[:-8] == name[:-8]
    assert job_name(same_name) != name


def test_a_job_is_on_record_in_the_attempts_folder_right_after_it_was_submitted(
    launcher, engine, folder
):
    launcher.start(folder, SLOT, LIMITS)

    ((name, command),) = engine.submitted
    assert command[-1] == str(folder.path)
    assert read_job(folder) == SubmittedJob(engine="pretended", id="17", name=name)


@pytest.mark.parametrize("state", [JobState.WAITING, JobState.RUNNING, JobState.UNKNOWN])
def test_only_a_job_that_has_ended_can_be_lost(launcher, engine, folder, state):
    engine.state = state
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")

    assert looked_at_for(0.4, running) is None


def test_a_job_that_ended_and_left_nothing_is_lost_with_what_the_engine_said(
    launcher, engine, folder
):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    engine.state, engine.detail = JobState.ENDED, "it says NODE_FAIL"

    began = time.monotonic()
    supervision = within(5, running.poll)

    assert (supervision.cause, supervision.detail) == (Cause.SUPERVISOR_LOST, "it says NODE_FAIL")
    assert time.monotonic() - began >= 0.2
    assert read_request(folder) == Request(grace_seconds=None)


def test_a_file_that_comes_late_counts(launcher, engine, folder):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    engine.state = JobState.ENDED
    assert running.poll() is None

    exited = last_seen(None, cause=Cause.EXITED, detail="")
    exited.write(folder.supervision)

    assert running.poll() == exited


def test_what_an_engine_lost_and_we_had_ended_is_lost_not_killed(launcher, engine, folder):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    engine.state, engine.detail = JobState.ENDED, "it says NODE_FAIL"
    assert running.poll() is None

    last_seen(None, cause=Cause.KILLED, detail="asked").write(folder.supervision)

    supervision = running.poll()
    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail == (
        "it says NODE_FAIL; its processes were still there and were ended"
    )


def test_an_attempt_is_not_over_while_its_heart_beats(launcher, engine, folder):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    engine.state = JobState.ENDED

    for beat in range(10):
        folder.heartbeat.write_text("x" * beat, "utf-8")
        assert looked_at_for(0.05, running) is None
    folder.heartbeat.unlink()

    assert within(5, running.poll).cause is Cause.SUPERVISOR_LOST


def test_a_job_that_ended_before_it_began_is_lost_at_once_and_cannot_begin_late(
    launcher, engine, folder
):
    running = launcher.start(folder, SLOT, LIMITS)
    engine.state, engine.detail = JobState.ENDED, "it says CANCELLED"

    supervision = running.poll()

    assert (supervision.cause, supervision.detail) == (Cause.SUPERVISOR_LOST, "it says CANCELLED")
    assert not take(folder, by="a job that begins after all")


@pytest.mark.parametrize(
    ("ask", "cause"),
    [
        (lambda running: running.stop(grace_seconds=9.0), Cause.STOPPED),
        (lambda running: running.kill(), Cause.KILLED),
    ],
)
def test_a_job_that_waits_is_taken_from_the_queue_when_it_is_to_end(
    launcher, engine, folder, ask, cause
):
    running = launcher.start(folder, SLOT, LIMITS)

    ask(running)

    assert running.poll().cause is cause
    assert engine.cancelled == ["17"]
    assert not take(folder, by="a job that begins after all")


def test_a_job_that_runs_is_asked_first_and_ended_by_its_engine_when_it_does_not_obey(
    launcher, engine, folder
):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    engine.state = JobState.RUNNING

    running.stop(grace_seconds=0.2)
    assert read_request(folder) == Request(grace_seconds=0.2)
    assert looked_at_for(0.15, running) is None
    assert engine.cancelled == []

    within(5, lambda: running.poll() or engine.cancelled)
    assert engine.cancelled == ["17"]


def test_the_time_for_a_checkpoint_comes_on_top_of_the_grace(launcher, engine, folder):
    running = launcher.start(folder, SLOT, TrialLimits(checkpoint_seconds=60))
    take(folder, by="the job")

    running.stop(grace_seconds=0.0)

    assert looked_at_for(0.3, running) is None
    assert engine.cancelled == []


def test_with_an_engine_that_is_gone_for_good_an_end_that_was_asked_for_comes(
    launcher, engine, folder
):
    engine.state, engine.detail = JobState.UNKNOWN, "no answer"
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")

    running.kill()

    supervision = within(5, running.poll)
    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail == "no answer, and the node does not do as it is asked"


def test_an_engine_that_does_not_take_the_job_is_a_start_that_failed(launcher, engine, folder):
    engine.troubles = [OSError("no such partition")]

    with pytest.raises(OSError, match="no such partition"):
        launcher.start(folder, SLOT, LIMITS)


def test_an_engine_that_does_not_answer_is_asked_again(launcher, engine, folder, monkeypatch):
    monkeypatch.setattr(engine_running, "FIND_SECONDS", 0.05)
    engine.troubles = [EngineSilent("no answer"), EngineSilent("still none")]
    running = launcher.start(folder, SLOT, LIMITS)

    assert running.poll() is None
    assert engine.submitted == []

    within(5, lambda: running.poll() or engine.submitted)
    assert len(engine.submitted) == 1
    assert read_job(folder).id == "17"


def test_a_job_that_was_taken_without_an_answer_is_not_submitted_again(
    launcher, engine, folder, monkeypatch
):
    monkeypatch.setattr(engine_running, "FIND_SECONDS", 0.05)
    engine.troubles = [EngineSilent("no answer")]
    running = launcher.start(folder, SLOT, LIMITS)
    engine.known[job_name(folder)] = "17"

    assert looked_at_for(0.3, running) is None

    assert engine.submitted == []
    assert running.standing == "all is said"


def test_a_job_that_is_refused_later_is_lost_with_the_reason(launcher, engine, folder, monkeypatch):
    monkeypatch.setattr(engine_running, "FIND_SECONDS", 0.05)
    engine.troubles = [EngineSilent("no answer"), OSError("no such partition")]
    running = launcher.start(folder, SLOT, LIMITS)

    assert within(5, running.poll).detail == "no such partition"


def test_an_attempt_of_another_engine_is_not_taken_up(launcher, engine, folder):
    launcher.start(folder, SLOT, LIMITS)
    write_job(folder, SubmittedJob(engine="other", id="17", name="x"))

    assert launcher.attach(folder, SLOT, LIMITS) is None


def test_closing_calls_off_what_waits(launcher, engine, folder):
    running = launcher.start(folder, SLOT, LIMITS)

    launcher.close()

    assert running.poll().cause is Cause.KILLED
    assert engine.cancelled == ["17"]


def test_what_is_damaged_counts_as_not_there(launcher, engine, folder, caplog):
    running = launcher.start(folder, SLOT, LIMITS)
    take(folder, by="the job")
    folder.supervision.write_text("{", "utf-8")

    assert looked_at_for(0.1, running) is None
    assert len(caplog.records) == 1
