"""An engine in a process of its own; here a scripted one, `bridged_engine.py`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweeper.errors import PlanError
from sweeper.study.run_options import DaskLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers import bridge
from sweeper.workers.launchers.bridge import BridgedEngine
from sweeper.workers.launchers.engine import EngineSilent, JobState

CHILD = (sys.executable, str(Path(__file__).parent / "bridged_engine.py"))
FOLDER = AttemptFolder(Path("/runs/attempt"))


@pytest.fixture
def bridged(tmp_path, monkeypatch):
    """Returns connected engines; closes them at the end."""
    monkeypatch.setattr(bridge, "_CHILD", CHILD)
    monkeypatch.setattr(bridge, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(bridge, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(bridge, "LOOK_SECONDS", 0.0)
    with contextlib.ExitStack() as stack:

        def connect(address="here"):
            options = DaskLauncher(kind="dask", address=address)
            engine = BridgedEngine(options, environ=os.environ, log=tmp_path / "logs" / "dask.log")
            return stack.enter_context(contextlib.closing(engine))

        yield connect


def children():
    return [each for each in psutil.Process().children() if CHILD[1] in each.cmdline()]


def child():
    (process,) = children()
    return process


def test_questions_reach_the_engine_and_answers_come_back(bridged):
    engine = bridged()

    assert engine.submit(name="one", folder=FOLDER, command=("a", "b")) == "one /runs/attempt a b"
    assert engine.find("one") == "one"
    assert engine.find("nobody") is None
    job = engine.look("one")
    assert (job.state, job.detail) == (JobState.RUNNING, "one runs")


def test_no_cluster_is_the_users_error_and_leaves_no_process(bridged):
    with pytest.raises(PlanError, match=r"nobody answers \(got nowhere\)"):
        bridged("nowhere")

    assert children() == []


def test_a_refusal_and_a_silence_are_told_apart(bridged):
    engine = bridged()

    with pytest.raises(OSError, match="ValueError: no such job") as refusal:
        engine.submit(name="refused", folder=FOLDER, command=())
    with pytest.raises(EngineSilent, match="the scheduler is asleep"):
        engine.submit(name="unheard", folder=FOLDER, command=())

    assert not isinstance(refusal.value, EngineSilent)


def test_a_look_that_fails_is_unknown_and_the_next_question_is_answered(bridged):
    engine = bridged()

    job = engine.look("odd")

    assert (job.state, job.detail) == (JobState.UNKNOWN, "ConnectionError: the line is cut")
    assert engine.look("one").state is JobState.RUNNING


def test_a_slow_look_is_unknown_until_its_answer_comes(bridged):
    engine = bridged()

    began = time.monotonic()
    first = engine.look("slow")
    waited_seconds = time.monotonic() - began
    time.sleep(1.0)

    assert first.state is JobState.UNKNOWN
    assert waited_seconds < 0.9
    assert engine.look("slow").detail == "slow runs"


def test_a_child_that_dies_is_replaced(bridged):
    engine = bridged()
    dead = child()

    assert engine.look("deadly").state is JobState.UNKNOWN
    dead.wait(10)

    assert engine.find("one") == "one"
    assert child() != dead


def test_a_question_that_hangs_is_given_up_with_the_child_that_would_still_do_it(
    bridged, monkeypatch
):
    engine = bridged()
    monkeypatch.setattr(bridge, "ANSWER_SECONDS", 0.5)
    stuck = child()

    with pytest.raises(EngineSilent, match=r"dask did not answer in 0\.5 s"):
        engine.find("stuck")

    stuck.wait(10)


def test_a_cancel_that_fails_is_no_error(bridged):
    engine = bridged()

    engine.cancel("one")

    assert engine.look("one").state is JobState.RUNNING


def test_closing_closes_the_engine_and_leaves_no_process(bridged, tmp_path):
    bridged().close()

    assert children() == []
    assert (tmp_path / "logs" / "dask.log").read_text("utf-8").endswith("closed\n")


def test_a_child_whose_coordinator_is_gone_leaves_whatever_it_waits_for(bridged, monkeypatch):
    monkeypatch.setattr(bridge, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(bridge._Child, "kill", lambda _self: None)
    engine = bridged()
    stuck = child()
    with pytest.raises(EngineSilent):
        engine.find("stuck")

    began = time.monotonic()
    engine.close()

    assert not stuck.is_running()
    assert time.monotonic() - began < 5.0
