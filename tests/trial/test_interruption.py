from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sweeper.trial.interruption import Interruption


@pytest.fixture
def interruption():
    before = signal.getsignal(signal.SIGTERM)
    yield Interruption()
    signal.signal(signal.SIGTERM, before)


def test_signal_15_sets_the_flag_and_ends_nothing(interruption):
    interruption.listen()
    assert not interruption.is_asked()

    os.kill(os.getpid(), signal.SIGTERM)

    assert interruption.is_asked()


WATCHING = """
import sys, time
from sweeper.trial.interruption import end_without_parent
end_without_parent(0)
print("watching", flush=True)
time.sleep(float(sys.argv[1]))
"""


def test_input_on_the_pipe_does_not_end_the_process_but_its_closing_does():
    argv = [sys.executable, "-c", WATCHING, "600"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        process.stdin.write(b"anything\n")
        process.stdin.flush()
        assert process.poll() is None

        process.stdin.close()

        assert process.wait(5) == -signal.SIGKILL


def test_a_process_that_leads_no_group_ends_alone():
    """Run by hand in a shell's pipeline, it spares what shares its group: here, this test."""
    argv = [sys.executable, "-c", WATCHING, "600"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()

        process.stdin.close()

        assert process.wait(5) == -signal.SIGKILL


def test_standard_input_that_is_no_pipe_is_not_watched():
    argv = [sys.executable, "-c", WATCHING, "0.3"]

    assert subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode == 0
