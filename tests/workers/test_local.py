"""What is particular to trials on this host; what every launcher promises is in the contracts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from sweeper.records import Reason
from sweeper.workers.ending import judge, listen
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause, Supervision

SLOT = Slot(name="cpu 1", device=None)
QUICK = TrialLimits(grace_seconds=0.3)

pytestmark = pytest.mark.usefixtures("survivors")


def supervisor_of(folder):
    return psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid)


def test_a_supervisor_outlives_its_trials(behaving, new_folder, eventually):
    launcher = behaving("completes")
    first, second = new_folder(), new_folder()

    eventually(launcher.start(first, SLOT, QUICK).poll)
    eventually(launcher.start(second, SLOT, QUICK).poll)

    assert supervisor_of(first) == supervisor_of(second)


def test_each_slot_has_a_supervisor_of_its_own(behaving, new_folder, eventually):
    launcher = behaving("completes")
    first, second = new_folder(), new_folder()

    one = launcher.start(first, SLOT, QUICK)
    two = launcher.start(second, Slot(name="cpu 2", device=None), QUICK)
    eventually(one.poll)
    eventually(two.poll)

    assert supervisor_of(first) != supervisor_of(second)


def test_a_supervisor_killed_in_mid_trial_means_a_lost_worker_and_no_process_left(
    behaving, new_folder, said, eventually, survivors
):
    """These trials do not watch their parent: the launcher ends them by their environment."""
    folder = new_folder()
    running = behaving("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    eventually(lambda: said(folder))

    supervisor_of(folder).kill()
    supervision = eventually(running.poll)

    assert survivors() == []
    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.pid == running.pid
    assert "ended with status -9" in supervision.detail
    assert Supervision.read(folder.supervision) == supervision
    outcome = judge(listen([]), supervision, planned_target_tokens=10)
    assert outcome.reason is Reason.WORKER_LOST


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_died_between_trials_is_replaced(
    behaving, new_folder, eventually, number
):
    launcher = behaving("completes")
    first, second = new_folder(), new_folder()
    eventually(launcher.start(first, SLOT, QUICK).poll)
    dead = supervisor_of(first)

    dead.send_signal(number)
    supervision = eventually(launcher.start(second, SLOT, QUICK).poll)

    assert supervision.cause is Cause.EXITED
    assert supervision.supervisor_pid != dead.pid


def test_closing_ends_running_trials_and_their_end_is_still_told(
    behaving, new_folder, said, eventually, survivors
):
    launcher = behaving("ends_when_asked")
    folder = new_folder()
    running = launcher.start(folder, SLOT, QUICK)
    eventually(lambda: said(folder))
    supervisor = supervisor_of(folder)

    launcher.close()

    assert not supervisor.is_running()
    assert survivors() == []
    assert running.poll().cause is Cause.STOPPED


def test_a_program_that_is_not_there_is_a_start_that_failed(new_folder, tmp_path, eventually):
    launcher = LocalLauncher(logs=tmp_path / "logs", trial_command=("/nowhere/python",))
    with contextlib.closing(launcher):
        running = launcher.start(new_folder(), SLOT, QUICK)
        supervision = eventually(running.poll)

    assert running.pid is None
    assert supervision.cause is Cause.NOT_STARTED
    assert supervision.detail.startswith("/nowhere/python could not be started")


def test_slots_start_at_the_same_time_from_their_own_threads(behaving, new_folder, eventually):
    launcher = behaving("completes")
    folders = [new_folder() for _ in range(4)]
    endings = []

    def fill(number):
        slot = Slot(name=f"cpu {number}", device=None)
        endings.append(eventually(launcher.start(folders[number], slot, QUICK).poll))

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [ending.exit_status for ending in endings] == [0, 0, 0, 0]


def test_the_supervisor_starts_without_the_heavy_libraries():
    code = (
        "import sys, sweeper.workers.supervisor; "
        "print(sorted({'torch', 'pydantic', 'numpy', 'pandas', 'optuna'} & set(sys.modules)))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "[]\n"


def test_ctrl_c_in_the_coordinators_terminal_does_not_reach_the_trial(
    behaving, new_folder, said, eventually
):
    """The terminal signals its foreground group; supervisor and trial are in other groups."""
    folder = new_folder()
    running = behaving("ends_when_asked").start(folder, SLOT, QUICK)
    eventually(lambda: said(folder))

    groups = {os.getpgid(running.pid), os.getpgid(supervisor_of(folder).pid), os.getpgrp()}

    assert len(groups) == 3
    running.kill()
    eventually(running.poll)
