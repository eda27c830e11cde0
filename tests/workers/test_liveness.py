from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from sweeper.workers.liveness import host_name, is_alive, started_at


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


def test_a_running_process_is_alive():
    assert is_alive(host_name(), os.getpid(), started_at(os.getpid())) is True


def test_the_start_time_is_the_kernels():
    assert started_at(os.getpid()) == psutil.Process().create_time()


def test_a_process_that_ended_is_dead(process):
    start = started_at(process.pid)
    process.kill()
    process.wait()

    assert is_alive(host_name(), process.pid, start) is False
    assert started_at(process.pid) is None


def test_a_process_that_ended_uncollected_is_dead(process):
    start = started_at(process.pid)
    process.kill()
    psutil_view = psutil.Process(process.pid)
    while psutil_view.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)

    assert is_alive(host_name(), process.pid, start) is False


def test_another_process_under_the_same_id_is_not_taken_for_the_first(process):
    assert is_alive(host_name(), process.pid, started_at(process.pid) - 60) is False


def test_a_small_correction_of_the_clock_does_not_kill(process):
    assert is_alive(host_name(), process.pid, started_at(process.pid) - 1.5) is True


def test_of_another_host_nothing_can_be_said():
    assert is_alive("another-host", os.getpid(), started_at(os.getpid())) is None
