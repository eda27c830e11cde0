"""What is particular to Slurm; what every launcher promises is in the contracts."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from sweeper.errors import PlanError
from sweeper.records import Reason
from sweeper.study.run_options import SlurmLauncher
from sweeper.workers.ending import judge, listen
from sweeper.workers.launchers import slurm as slurm_module
from sweeper.workers.launchers.engine import EngineSilent, JobState, Patience, job_name
from sweeper.workers.launchers.engine_launcher import EngineLauncher
from sweeper.workers.launchers.slurm import Slurm, batch_script, warning_seconds
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause

CHILD = Path(__file__).parent / "child.py"
SLOT = Slot(name="slurm 1", device=None, engine=True)
QUICK = TrialLimits(grace_seconds=5)
PATIENCE = Patience(file_seconds=1.0, silence_seconds=5.0, obey_seconds=3.0, engine_seconds=20.0)
PASSWORD = "s3cret/p@ss"


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (None, 180),
        (2, 40),
        ("2", 40),
        (90, 180),
        ("4:30", 90),
        ("0:05:00", 100),
        ("1-0", 180),
        ("0-0:3", 60),
        ("0-0:0:30", 10),
        ("0", 1),
        ("soon", 180),
        ("1:2:3:4", 180),
    ],
)
def test_a_job_is_warned_before_its_time_limit_but_not_as_it_begins(time, seconds):
    assert warning_seconds({} if time is None else {"time": time}) == seconds


def test_the_command_takes_the_place_of_the_scripts_shell_after_the_setup():
    script = batch_script(("python", "-m", "x", "/a b"), setup="module load cuda\nulimit -c 0\n")

    assert script == (
        "#!/bin/bash\numask 077\nset -e\nmodule load cuda\nulimit -c 0\nset +e\n"
        "exec python -m x '/a b'\n"
    )


@pytest.fixture
def engine_of(slurm):
    """Returns engines with these options, as a coordinator with these variables makes them."""

    def make(*, environ=None, withheld=(), **options):
        given = SlurmLauncher(kind="slurm", **options)
        known = os.environ | slurm.environ | (environ or {})
        return Slurm(given, environ=known, withheld=withheld)

    return make


@pytest.fixture
def launching(engine_of, survivors):
    """Returns what starts attempts whose trials behave as named; closes all launchers."""
    with contextlib.ExitStack() as stack:

        def start(folder, behaviour, *, command=None, limits=QUICK, **made_with):
            command = command or (sys.executable, str(CHILD), behaviour)
            engine = engine_of(**made_with)
            launcher = EngineLauncher(engine, trial_command=command, patience=PATIENCE)
            stack.callback(launcher.close)
            return launcher.start(folder, SLOT, limits)

        yield start


@pytest.fixture
def stray_jobs(slurm):
    """Submits jobs of somebody else; ends them with the test."""
    jobs = []

    def submit(*options):
        job = slurm.call("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 60")
        jobs.append(job.strip())
        return jobs[-1]

    yield submit
    slurm.call("scancel", *jobs)


def verdict(events, supervision):
    statement = listen(event.record for event in events)
    return judge(statement, supervision, planned_target_tokens=10)


pytestmark = pytest.mark.slow


def test_nothing_that_holds_a_password_leaves_the_coordinator(
    launching, slurm, new_folder, eventually
):
    folder = new_folder()
    secrets = {"STUDY_DB": PASSWORD, "HF_MIRROR": f"postgresql://me:{PASSWORD}@host/db"}
    shows = (sys.executable, "-c", "import os; print(dict(os.environ))")
    running = launching(
        folder, "", command=shows, environ=secrets | {"HF_HOME": "/c"}, withheld=["STUDY_DB"]
    )
    eventually(running.poll)

    seen = folder.stdout.read_text("utf-8")
    job = slurm.call("scontrol", "show", "job", folder.job.read_text("utf-8").split('"')[7])
    script = folder.job_script.read_text("utf-8")

    assert "'HF_HOME': '/c'" in seen
    assert all(PASSWORD not in text for text in (seen, job, script))
    assert all(PASSWORD not in file.read_text("utf-8") for file in folder.path.iterdir())
    assert stat.S_IMODE(folder.job_script.stat().st_mode) == 0o600


def test_jobs_on_one_node_see_a_gpu_each_and_a_job_that_asks_for_none_sees_none(
    launching, new_folder, eventually
):
    code = "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(2)"
    shows = (sys.executable, "-c", code)
    folders = [new_folder() for _ in range(3)]
    options = {"nodelist": "n1", "gres": "gpu:1"}
    asked = [options, options, {"nodelist": "n1"}]

    for folder, sbatch in zip(folders, asked, strict=True):
        launching(folder, "", command=shows, sbatch=sbatch)
    for folder in folders:
        eventually(lambda folder=folder: folder.stdout.exists() and folder.stdout.read_text())

    first, second, third = (folder.stdout.read_text("utf-8") for folder in folders)
    assert {first, second} == {"0\n", "1\n"}
    assert third == "\n"


def test_a_job_that_has_to_make_room_is_preempted_in_order(
    launching, slurm, stray_jobs, new_folder, said, eventually
):
    folder = new_folder()
    where = {"nodelist": "n2", "exclusive": True}
    running = launching(folder, "ends_when_asked", sbatch=where)
    eventually(lambda: said(folder))

    urgent = stray_jobs("--partition=urgent", "--nodelist=n2", "--exclusive")
    supervision = eventually(running.poll)

    outcome = verdict(said(folder), supervision)
    assert outcome.reason is Reason.PREEMPTED
    assert supervision.exit_status == 0
    eventually(lambda: slurm.job(urgent)["JobState"] == "RUNNING")


def test_a_job_that_waits_for_a_node_is_taken_from_the_queue(
    launching, slurm, stray_jobs, new_folder, eventually
):
    for node in ("n1", "n2"):
        stray_jobs(f"--nodelist={node}", "--exclusive", "--partition=urgent")
    folder = new_folder()
    running = launching(folder, "completes")
    eventually(lambda: running.poll() is None and "PENDING" in running.standing)
    job = folder.job.read_text("utf-8").split('"')[7]

    running.stop(grace_seconds=60)

    assert running.poll().cause is Cause.STOPPED
    eventually(lambda: slurm.job(job)["JobState"] == "CANCELLED")
    assert not folder.events.exists()


def test_a_job_that_somebody_cancels_is_ended_in_order(
    launching, slurm, new_folder, said, eventually
):
    """Slurm sends signal 15 to all of its processes and, some seconds later, 9."""
    folder = new_folder()
    running = launching(folder, "ends_when_asked")
    eventually(lambda: said(folder))

    slurm.call("scancel", f"--name={job_name(folder)}")

    supervision = eventually(running.poll)
    assert verdict(said(folder), supervision).reason is Reason.PREEMPTED


def test_slurm_is_told_never_to_start_a_job_again(launching, slurm, new_folder, said, eventually):
    folder = new_folder()
    launching(folder, "ends_when_asked", sbatch={"comment": "two words"})
    eventually(lambda: said(folder))

    job = slurm.job(folder.job.read_text("utf-8").split('"')[7])

    assert (job["Requeue"], job["Restarts"]) == ("0", "0")
    assert job["Comment"] == "two"  # the words are split here, not there
    assert job["WorkDir"] == str(folder.path)


def test_what_the_setup_says_is_done_before_the_trial(launching, new_folder, eventually):
    folder = new_folder()
    shows = (sys.executable, "-c", "import os; print(os.environ['SITE'])")

    running = launching(folder, "", command=shows, setup="export SITE='a b'\necho ready")
    eventually(running.poll)

    assert folder.stdout.read_text("utf-8") == "a b\n"
    assert folder.job_log.read_text("utf-8") == "ready\n"


def test_a_setup_that_fails_loses_the_job_with_what_it_said(launching, new_folder, eventually):
    folder = new_folder()
    running = launching(folder, "completes", setup="echo no such module >&2\nfalse")

    supervision = eventually(running.poll)

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail.startswith("Slurm says FAILED (NonZeroExitCode), exit 1:0 on n")
    assert supervision.stderr_tail == "no such module\n"
    assert not folder.events.exists()


def test_a_job_that_slurm_does_not_take_is_a_start_that_failed(launching, new_folder):
    with pytest.raises(OSError, match=r"^sbatch: .*invalid partition"):
        launching(new_folder(), "completes", sbatch={"partition": "nowhere"})


@pytest.mark.parametrize(
    ("sbatch", "told"),
    [
        ({"partition": "nowhere"}, "invalid partition"),
        ({"cpus_per_task": 99}, "node configuration is not available"),
        ({"no_such_option": 1}, "unrecognized option"),
    ],
)
def test_what_slurm_would_not_take_is_told_before_the_study_begins(engine_of, sbatch, told):
    with pytest.raises(PlanError, match=told) as caught:
        engine_of(sbatch=sbatch).refuse_if_slurm_would()

    (fault,) = caught.value.faults
    assert fault.where == "run.launcher.sbatch"
    assert fault.got.startswith("--")


def test_what_slurm_would_take_is_not_run(engine_of, slurm):
    before = known_jobs(slurm)

    engine_of(sbatch={"gres": "gpu:1"}, setup="false").refuse_if_slurm_would()

    assert known_jobs(slurm) <= before


def known_jobs(slurm):
    """The numbers of all jobs that Slurm has, those that ended a while ago too."""
    return set(slurm.call("squeue", "--noheader", "--states=all", "--format=%i").split())


def test_without_slurms_commands_a_study_does_not_begin():
    engine = Slurm(SlurmLauncher(kind="slurm"), environ={"PATH": "/nowhere"})

    with pytest.raises(PlanError, match="Slurm's commands are not installed here"):
        engine.refuse_if_slurm_would()


def test_a_controller_that_does_not_answer_ends_nothing(
    launching, engine_of, slurm, new_folder, said, eventually, monkeypatch
):
    monkeypatch.setattr(slurm_module, "COMMAND_SECONDS", 1.0)
    monkeypatch.setattr(slurm_module, "PATIENCE_SECONDS", 0.5)
    folder = new_folder()
    running = launching(folder, "ends_when_asked")
    eventually(lambda: said(folder))

    slurm.stop_controller()
    try:
        eventually(lambda: running.poll() is None and "does not answer" in running.standing)
        with pytest.raises(EngineSilent):
            engine_of().find("x")
    finally:
        slurm.continue_controller()

    eventually(lambda: running.poll() is None and "RUNNING" in running.standing)


def test_a_job_that_slurm_has_forgotten_has_ended(engine_of, eventually):
    engine = engine_of()

    job = eventually(lambda: _ended(engine.look("4000000")))

    assert job.detail == "Slurm does not know job 4000000 any more"


def _ended(job):
    return job if job.state is JobState.ENDED else None


def test_one_question_a_second_serves_all_jobs(engine_of, monkeypatch):
    engine, numbers, asked = engine_of(), itertools.count(1), []
    monkeypatch.setattr(engine, "_call", lambda *command: asked.append(command) or "")
    monkeypatch.setattr(engine, "_inspected", lambda job_id: slurm_module._NOT_ASKED)

    for _ in range(50):
        engine.look(str(next(numbers)))

    assert len(asked) == 1


def test_commands_that_are_not_installed_are_a_start_that_failed(new_folder):
    engine = Slurm(SlurmLauncher(kind="slurm"), environ={"PATH": "/nowhere"})

    with pytest.raises(FileNotFoundError):
        engine.submit(name="x", folder=new_folder(), command=("true",))


def test_a_coordinator_within_a_job_does_not_pass_on_what_that_job_was_told(
    launching, new_folder, eventually
):
    folder = new_folder()
    around = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "9", "SBATCH_SIGNAL": str(signal.SIGUSR1)}
    shows = (sys.executable, "-c", "import os; print(os.environ.get('SLURM_NTASKS'))")

    eventually(launching(folder, "", command=shows, environ=around).poll)

    assert folder.stdout.read_text("utf-8") == "None\n"
