from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from sweeper.study.folder import StudyFolder
from sweeper.workers import process_tree
from sweeper.workers.process_tree import MARKER, is_below

SLEEPS = "print('ready', flush=True); input()"
DEFIES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
HOARDS = f"hoard = bytearray(b'x' * (64 << 20)); {SLEEPS}"


@pytest.fixture
def start(tmp_path):
    """Starts a Python process marked as this test's attempt, and returns once it is ready."""
    processes = []

    def process(code):
        started = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={MARKER: str(tmp_path)},
        )
        processes.append(started)
        started.stdout.readline()
        return started

    yield process
    for started in processes:
        with started:
            started.kill()


def test_processes_are_found_by_the_attempt_in_their_environment(start, tmp_path):
    one, two = start(SLEEPS), start(SLEEPS)

    assert {process.pid for process in process_tree.marked(tmp_path)} == {one.pid, two.pid}
    assert process_tree.marked(tmp_path / "another") == []


def test_a_process_that_ended_but_was_not_collected_does_not_count(start, tmp_path):
    process = start(SLEEPS)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert process_tree.marked(tmp_path) == []
    assert process.pid not in {child.pid for child in process_tree.descendants()}


def test_marked_processes_are_asked_first_and_then_killed(start, tmp_path):
    yielding, defiant = start(SLEEPS), start(DEFIES)

    left = process_tree.end_marked(tmp_path, grace_seconds=0.3)

    assert left == ()
    assert yielding.wait(0) == -signal.SIGTERM
    assert defiant.wait(0) == -signal.SIGKILL


def test_the_memory_of_a_tree_counts_what_its_processes_hold_themselves(start):
    lean, fat = psutil.Process(start(SLEEPS).pid), psutil.Process(start(HOARDS).pid)

    together = process_tree.tree_memory_bytes([lean, fat])

    assert together - process_tree.tree_memory_bytes([lean]) > 64 << 20
    assert together < 2 * (64 << 20)


def test_a_process_that_is_gone_holds_nothing_and_takes_no_signal(start):
    process = start(SLEEPS)
    gone = psutil.Process(process.pid)
    process.kill()
    process.wait()

    process_tree.send([gone], signal.SIGTERM)

    assert process_tree.tree_memory_bytes([gone]) == 0


ADOPTS = """
import psutil, subprocess, sys
from sweeper.workers import process_tree

process_tree.adopt_orphans()
subprocess.run(["sh", "-c", "sleep 600 & exit"], check=True)
print(len(process_tree.descendants()))
for process in process_tree.descendants():
    process.kill()
while process_tree.descendants():
    pass
process_tree.collect_orphans(besides=None)
print(psutil.Process().children())
"""


def test_an_orphan_is_adopted_found_and_collected():
    argv = [sys.executable, "-c", ADOPTS]
    said = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert said.stdout.splitlines() == ["1", "[]"]


def test_a_process_belongs_to_the_run_folder_of_its_attempt(start, tmp_path):
    child = start(SLEEPS)

    assert is_below(child.pid, tmp_path.parent)
    assert is_below(child.pid, tmp_path)
    assert not is_below(child.pid, tmp_path / "attempts")
    assert not is_below(1 << 30, tmp_path)


def test_the_run_folder_of_an_attempt_is_found_from_the_attempt_s(tmp_path):
    study = StudyFolder(tmp_path.resolve() / "runs" / "rates")

    assert StudyFolder.of_attempt(study.attempt(arm="half", seed=0, number=1)) == study
