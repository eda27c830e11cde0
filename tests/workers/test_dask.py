"""What is particular to Dask, with a real scheduler and workers; the rest is in the contracts."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.errors import PlanError
from sweeper.study.run_options import DaskLauncher, RayLauncher
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.launchers import dask as module
from sweeper.workers.launchers.bridge import BridgedEngine
from sweeper.workers.launchers.dask import connected_to_dask
from sweeper.workers.launchers.engine import JobState, Patience, job_name
from sweeper.workers.launchers.engine_launcher import EngineLauncher
from sweeper.workers.launchers.ray import connected_to_ray
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause

CHILD = Path(__file__).parent / "child.py"
SLOT = Slot(name="dask 1", device=None, engine=True)
QUICK = TrialLimits(grace_seconds=0.3)
IMPATIENT = Patience(file_seconds=1.0, silence_seconds=5.0, obey_seconds=3.0, engine_seconds=20.0)

slow = pytest.mark.slow


@pytest.fixture
def engine(dask, survivors):
    options = DaskLauncher(kind="dask", address=dask.address)
    log = dask.folder / "client.log"
    environ = {**os.environ, **dask.environ}
    with contextlib.closing(BridgedEngine(options, environ=environ, log=log)) as made:
        yield made


@pytest.fixture
def started(engine, new_folder, said, eventually):
    """Starts a trial that behaves as named; returns its folder and what is running."""

    def start(behaviour):
        command = (sys.executable, str(CHILD), behaviour)
        launcher = EngineLauncher(engine, trial_command=command, patience=IMPATIENT)
        folder = new_folder()
        running = launcher.start(folder, SLOT, QUICK)
        eventually(lambda: said(folder))
        return folder, running

    return start


@slow
def test_a_node_that_is_gone_is_told_in_dasks_words(dask, started, eventually):
    """Another worker would run the task again at once; the job's folder says that it has begun."""
    folder, running = started("watches_its_parent")

    worker = dask.kill_worker_of(folder)
    psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid).kill()
    supervision = eventually(running.poll)
    dask.start_worker(worker)

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail.startswith(("Dask lost the worker tcp://", "Dask's task says"))


@slow
def test_a_worker_that_is_told_to_leave_ends_its_jobs_in_order(dask, started, eventually):
    folder, running = started("ends_when_asked")

    worker = dask.stop_worker_of(folder)
    supervision = eventually(running.poll)
    dask.start_worker(worker)

    assert supervision.cause is Cause.STOPPED
    assert supervision.exit_status == 0
    assert supervision.detail == "the engine asked the job to end (signal 15)"


@slow
def test_a_scheduler_that_does_not_answer_ends_no_attempt(dask, engine, started, eventually):
    folder, running = started("ends_when_asked")
    name = job_name(folder)
    eventually(lambda: engine.look(name).state is JobState.RUNNING)

    with dask.scheduler_frozen():
        eventually(lambda: engine.look(name).state is JobState.UNKNOWN)
        assert running.poll() is None

    eventually(lambda: engine.look(name).state is JobState.RUNNING)
    running.kill()
    eventually(running.poll)


@slow
def test_cancel_takes_a_job_from_its_node_and_from_the_queue(engine, started, eventually):
    folder, running = started("defies_signal_15_with_grandchildren")
    name = job_name(folder)
    eventually(lambda: engine.look(name).state is JobState.RUNNING)

    engine.cancel(name)

    assert eventually(running.poll).cause is Cause.STOPPED
    eventually(lambda: engine.look(name).state is JobState.ENDED)
    assert engine.find(name) is None


@slow
def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)

    with pytest.raises(PlanError, match=r"no Dask scheduler answers.*\(got tcp://127\.0\.0\.1:1\)"):
        connected_to_dask(DaskLauncher(kind="dask", address="tcp://127.0.0.1:1"))


def test_no_address_is_refused(monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)

    with pytest.raises(PlanError, match="no Dask scheduler is named"):
        connected_to_dask(DaskLauncher(kind="dask"))


@pytest.mark.parametrize(
    ("package", "connect", "options"),
    [
        ("distributed", connected_to_dask, DaskLauncher(kind="dask", address="tcp://here:1")),
        ("ray", connected_to_ray, RayLauncher(kind="ray")),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, package, connect, options):
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(
        PlanError, match=rf"needs the package {package}.*'sweeper\[{options.kind}\]'"
    ):
        connect(options)
