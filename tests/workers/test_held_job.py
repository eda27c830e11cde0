"""A job between an engine's process and its trial: what each hears of the other's end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.workers.handover import NodeOrder, take, write_order
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.job import REFUSED
from sweeper.workers.launchers.held_job import HeldJob, ending
from sweeper.workers.limits import TrialLimits
from sweeper.workers.process_tree import MARKER
from sweeper.workers.supervision import Cause, Supervision

CHILD = Path(__file__).parent / "child.py"
JOB = (sys.executable, "-m", "sweeper.workers.job")
HOLDER = """
import sys, time
from pathlib import Path
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.held_job import HeldJob
HeldJob(AttemptFolder(Path(sys.argv[1])), sys.argv[2:])
time.sleep(600)
"""

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("survivors")]


def ordered(folder, behaviour):
    order = NodeOrder(
        argv=(sys.executable, str(CHILD), behaviour, str(folder.path)),
        environment={MARKER: str(folder.path), "OMP_NUM_THREADS": "1"},
        limits=TrialLimits(grace_seconds=0.5),
    )
    write_order(folder, order)
    return (*JOB, str(folder.path))


def test_it_says_nothing_while_the_job_runs_and_its_status_after(new_folder, said, eventually):
    folder = new_folder()
    job = HeldJob(folder, ordered(folder, "ends_when_asked"))
    eventually(lambda: said(folder))

    assert job.status() is None
    assert job.wait(timeout_seconds=0.01) is None
    job.end()

    assert job.status() == 0
    assert Supervision.read(folder.supervision).cause is Cause.STOPPED


def test_a_job_that_was_taken_says_so_by_its_status_and_in_its_log(new_folder):
    folder = new_folder()
    command = ordered(folder, "completes")
    take(folder, by="another job")

    assert HeldJob(folder, command).wait() == REFUSED

    assert "is taken already" in folder.job_log.read_text("utf-8")


def test_end_reaches_every_process_of_a_trial_that_defies_it(new_folder, said, eventually):
    folder = new_folder()
    job = HeldJob(folder, ordered(folder, "defies_signal_15_with_grandchildren"))
    eventually(lambda: said(folder))

    job.end()

    assert Supervision.read(folder.supervision).cause is Cause.STOPPED


def test_end_reaches_a_trial_whose_job_is_frozen(new_folder, said, eventually, survivors):
    folder = new_folder()
    job = HeldJob(folder, ordered(folder, "defies_signal_15_with_grandchildren"))
    eventually(lambda: said(folder))
    psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid).suspend()

    job.end(grace_seconds=0.5)

    assert survivors() == []
    assert ending(job.status()) == "ended by signal 9"


def test_a_job_ends_its_trial_when_its_holder_was_killed(new_folder, said, eventually, survivors):
    folder = new_folder()
    command = ordered(folder, "defies_signal_15_with_grandchildren")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder.path), *command])
    eventually(lambda: said(folder))

    holder.kill()
    holder.wait()
    supervision = eventually(lambda: Supervision.read(folder.supervision))

    assert survivors() == []
    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail == "the engine's process that held the job is gone"


def test_a_job_ends_its_trial_when_its_holder_and_all_its_children_were_killed(
    new_folder, said, eventually, survivors
):
    """Ray kills the children of a process of its own that ends."""
    folder = new_folder()
    command = ordered(folder, "defies_signal_15_with_grandchildren")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder.path), *command])
    eventually(lambda: said(folder))

    (shell,) = psutil.Process(holder.pid).children()
    shell.kill()
    holder.kill()
    holder.wait()
    supervision = eventually(lambda: Supervision.read(folder.supervision))

    assert survivors() == []
    assert supervision.cause is Cause.SUPERVISOR_LOST


@pytest.mark.parametrize(
    ("status", "words"), [(3, "ended with exit status 3"), (137, "ended by signal 9")]
)
def test_an_end_is_told_in_words(status, words):
    assert ending(status) == words
