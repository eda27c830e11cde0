"""The process on a node, started as an engine does it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.records import Reason
from sweeper.workers.ending import judge, listen
from sweeper.workers.handover import NodeOrder, Request, take, write_order, write_request
from sweeper.workers.job import DONE, REFUSED
from sweeper.workers.limits import TrialLimits
from sweeper.workers.process_tree import MARKER
from sweeper.workers.supervision import Cause, Supervision

CHILD = Path(__file__).parent / "child.py"

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("survivors")]


@pytest.fixture
def on_a_node():
    """Starts jobs as an engine does; ends them with the test."""
    with contextlib.ExitStack() as stack:

        def start(folder, behaviour, *, limits=None, environ=None, argv=None):
            order = NodeOrder(
                argv=argv or (sys.executable, str(CHILD), behaviour, str(folder.path)),
                environment={MARKER: str(folder.path), "OMP_NUM_THREADS": "1"},
                limits=limits or TrialLimits(grace_seconds=0.5),
            )
            write_order(folder, order)
            return again(folder, environ=environ)

        def again(folder, environ=None):
            command = [sys.executable, "-m", "sweeper.workers.job", str(folder.path)]
            process = subprocess.Popen(
                command, env=os.environ | (environ or {}), stderr=subprocess.PIPE, text=True
            )
            stack.callback(process.stderr.close)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        start.again = again
        yield start


def test_it_runs_the_order_and_leaves_the_end_in_the_folder(on_a_node, new_folder):
    folder = new_folder()

    assert on_a_node(folder, "completes").wait(30) == DONE

    supervision = Supervision.read(folder.supervision)
    assert (supervision.cause, supervision.exit_status) == (Cause.EXITED, 0)


def test_a_job_that_is_started_twice_runs_once(on_a_node, new_folder, said, eventually):
    folder = new_folder()
    on_a_node(folder, "ends_when_asked")
    eventually(lambda: said(folder))
    second = on_a_node.again(folder)

    assert second.wait(30) == REFUSED
    assert "is taken already: nothing is run" in second.stderr.read()
    assert len(said(folder)) == 1


def test_a_job_that_was_called_off_does_not_begin(on_a_node, new_folder):
    folder = new_folder()
    take(folder, by="the coordinator")

    assert on_a_node(folder, "completes").wait(30) == REFUSED
    assert not folder.events.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_engines_signal_is_a_preemption_that_can_be_resumed(
    on_a_node, new_folder, said, eventually, number
):
    folder = new_folder()
    job = on_a_node(folder, "ends_when_asked")
    eventually(lambda: said(folder))

    job.send_signal(number)

    assert job.wait(30) == DONE
    supervision = Supervision.read(folder.supervision)
    assert supervision.detail == "the engine asked the job to end (signal 15)"
    statement = listen(event.record for event in said(folder))
    verdict = judge(statement, supervision, planned_target_tokens=10)
    assert verdict.reason is Reason.PREEMPTED


def test_the_coordinator_asks_through_the_folder(on_a_node, new_folder, said, eventually):
    folder = new_folder()
    job = on_a_node(folder, "ends_when_asked")
    eventually(lambda: said(folder))

    write_request(folder, Request(grace_seconds=20))

    assert job.wait(30) == DONE
    supervision = Supervision.read(folder.supervision)
    assert (supervision.cause, supervision.exit_status) == (Cause.STOPPED, 0)


def test_a_kill_ends_what_does_not_end_by_itself(on_a_node, new_folder, said, eventually):
    folder = new_folder()
    job = on_a_node(folder, "defies_signal_15_with_grandchildren")
    eventually(lambda: said(folder))
    child = psutil.Process(job.pid).children()[0]
    write_request(folder, Request(grace_seconds=None))

    assert job.wait(30) == DONE
    assert not child.is_running()


@pytest.mark.parametrize(
    ("behaviour", "limits", "cause"),
    [
        ("hangs_in_training", {"hang_seconds": 0.5}, Cause.HUNG),
        ("hangs_in_training", {"wall_clock_seconds": 0.5}, Cause.WALL_CLOCK),
        ("allocates_memory", {"host_memory_bytes": 100 << 20}, Cause.HOST_MEMORY),
    ],
)
def test_limits_hold_on_the_node(on_a_node, new_folder, behaviour, limits, cause):
    folder = new_folder()
    job = on_a_node(folder, behaviour, limits=TrialLimits(grace_seconds=0.3, **limits))

    assert job.wait(30) == DONE
    assert Supervision.read(folder.supervision).cause is cause


@pytest.mark.parametrize(("given", "seen"), [("1,3", "1,3"), ("NoDevFiles", ""), ("", "")])
def test_a_trial_sees_the_devices_that_the_engine_gave_the_job(on_a_node, new_folder, given, seen):
    folder = new_folder()

    on_a_node(folder, "shows_its_surroundings", environ={"CUDA_VISIBLE_DEVICES": given}).wait(30)

    assert folder.stdout.read_text("utf-8").startswith(f"'{seen}' 1\n")


def test_a_program_that_is_not_there_is_a_start_that_failed(on_a_node, new_folder):
    folder = new_folder()

    assert on_a_node(folder, "", argv=("/nowhere/python",)).wait(30) == DONE

    assert Supervision.read(folder.supervision).cause is Cause.NOT_STARTED


def test_it_starts_without_the_heavy_libraries():
    code = (
        "import sys, sweeper.workers.job; "
        "print(sorted({'torch', 'pydantic', 'numpy', 'pandas', 'optuna'} & set(sys.modules)))"
    )

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"
