"""What becomes of a run when its terminal is closed, on a real pseudo-terminal."""

import contextlib
import importlib.util
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from waiting import within

from sweeper.store.store import StudyStore
from sweeper.workers.process_tree import MARKER

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


@pytest.fixture
def small(tmp_path):
    """A study whose first trial goes on until it is asked to end."""
    spec = importlib.util.spec_from_file_location(
        "cli_small_study", HERE.parent / "sweep" / "small_study.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    study = module.SmallStudy(tmp_path / "study")
    study.behave({"baseline/0": ["slow"]})
    return study


@pytest.fixture
def at_a_terminal(small):
    """Runs the study in a session of its own on a terminal; returns it and the other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(HERE / "controlled.py"), str(HERE / "terminal_run.py"), small.place],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=HERE.parents[1],
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    yield process, ours
    if process.poll() is None:
        process.kill()
        process.wait()
    small_processes = left(small)
    for number in small_processes:
        os.kill(number, signal.SIGKILL)
    assert small_processes == []


def left(small):
    """Processes of the study's trials."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARKER, "")
        except psutil.Error:
            continue
        if mark.startswith(str(small.place)):
            found.append(process.pid)
    return found


def until(question, ours):
    """Reads what the run draws until the question has an answer."""
    os.set_blocking(ours, False)

    def answered():
        with contextlib.suppress(BlockingIOError, OSError):
            while os.read(ours, 65536):
                pass
        return question()

    within(60, answered)


def has_a_window(small):
    events = small.folder.attempt(arm="baseline", seed=0, number=1) / "events.jsonl"
    lines = events.read_text().splitlines() if events.exists() else []
    return any(json.loads(line)["record"] == "update" for line in lines)


def reasons(small):
    with StudyStore.read(small.url) as store:
        return [(row["trial"], row["reason"]) for row in store.attempts()]


def test_a_closed_terminal_ends_the_run_like_ctrl_c(small, at_a_terminal):
    process, ours = at_a_terminal
    until(lambda: has_a_window(small), ours)

    os.close(ours)

    assert process.wait(60) == 130
    assert reasons(small) == [("baseline/0", "user_cancelled")]
    checkpoint = small.folder.attempt(arm="baseline", seed=0, number=1) / "checkpoints/00000001"
    assert checkpoint.is_dir(), "it can be gone on from"


def test_ctrl_c_twice_at_the_terminal_leaves_no_process(small, at_a_terminal):
    small.behave({"baseline/0": ["stubborn"]})
    process, ours = at_a_terminal
    until(lambda: has_a_window(small), ours)

    os.write(ours, b"\x03")
    time.sleep(1)
    assert process.poll() is None, "a stubborn trial has its grace"
    os.write(ours, b"\x03")

    until(lambda: process.poll() is not None, ours)
    os.close(ours)
    assert process.returncode == 130
    assert left(small) == []
