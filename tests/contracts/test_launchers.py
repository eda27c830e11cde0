"""What every launcher promises, asked of each. Add a new one to `LAUNCHERS`.

The trials are the stand-ins of `tests/workers/child.py`: real processes that behave as named.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.liveness import host_name, is_alive
from sweeper.workers.process_tree import MARKER
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause, Supervision

CHILD = Path(__file__).parents[1] / "workers" / "child.py"
SLOT = Slot(name="first", device=None)
QUICK = TrialLimits(grace_seconds=0.3)


def local(behaviour, scratch):
    command = (sys.executable, str(CHILD), behaviour)
    return LocalLauncher(logs=scratch / "logs", trial_command=command)


LAUNCHERS = {"local": local}


@pytest.fixture(params=LAUNCHERS)
def launching(request, tmp_path):
    """Returns launchers of one kind whose trials behave as named; closes them at the end."""
    with contextlib.ExitStack() as stack:

        def launcher(behaviour):
            made = LAUNCHERS[request.param](behaviour, tmp_path)
            return stack.enter_context(contextlib.closing(made))

        yield launcher
    assert processes_of(tmp_path) == []


@pytest.fixture
def folder(tmp_path):
    return new_folder(tmp_path, "1")


def new_folder(scratch, name):
    path = scratch / "attempts" / name
    path.mkdir(parents=True)
    return AttemptFolder(path)


def processes_of(scratch):
    return [process.pid for process in psutil.process_iter() if belongs(process, scratch)]


def belongs(process, scratch):
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get(MARKER, "").startswith(str(scratch))
    except psutil.Error:
        return False


def within(seconds, question):
    give_up = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < give_up, f"not within {seconds} s"
        time.sleep(0.02)
    return answer


def until_it_speaks(folder):
    within(30, lambda: folder.events.exists() and folder.events.stat().st_size > 0)


def test_a_started_trial_has_an_identity_and_runs_until_it_is_done(launching, folder):
    running = launching("ends_when_asked").start(folder, SLOT, QUICK)

    assert is_alive(host_name(), running.pid, running.started_at)
    assert running.poll() is None


def test_a_trial_that_ends_is_told_once_and_for_all(launching, folder):
    running = launching("completes").start(folder, SLOT, QUICK)

    supervision = within(30, running.poll)

    assert supervision.cause is Cause.EXITED
    assert (supervision.exit_status, supervision.signal) == (0, None)
    assert (supervision.pid, supervision.started_at) == (running.pid, running.started_at)
    assert running.poll() == supervision
    assert Supervision.read(folder.supervision) == supervision


def test_an_exit_status_and_a_signal_are_told_apart(launching, tmp_path):
    exits = launching("exits_3_after_metrics").start(new_folder(tmp_path, "a"), SLOT, QUICK)
    killed = launching("kills_itself").start(new_folder(tmp_path, "b"), SLOT, QUICK)

    assert within(30, exits.poll).exit_status == 3
    assert within(30, killed.poll).signal == signal.SIGKILL


def test_a_trial_is_given_its_slots_device_and_its_own_group_and_folder(launching, folder):
    slot = Slot(name="second", device="GPU-0a1b", threads=2)
    running = launching("shows_its_surroundings").start(folder, slot, QUICK)

    within(30, running.poll)

    assert folder.stdout.read_text("utf-8") == f"'GPU-0a1b' 2\nTrue {folder.path}\n"


def test_stop_lets_a_trial_end_in_order(launching, folder):
    running = launching("ends_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    running.stop(grace_seconds=20)
    supervision = within(10, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.exit_status == 0


def test_stop_kills_what_is_left_after_the_grace(launching, folder, tmp_path):
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    assert len(processes_of(tmp_path)) == 3

    running.stop(grace_seconds=0.5)
    supervision = within(10, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.signal == signal.SIGKILL
    assert processes_of(tmp_path) == []


def test_stop_waits_for_a_checkpoint_that_is_being_written(launching, folder):
    """Writing takes 2 s, leaving 0.5 s more; the grace is over by then."""
    running = launching("writes_a_checkpoint_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    running.stop(grace_seconds=0.5)
    supervision = within(15, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.exit_status == 0


def test_stop_does_not_wait_for_ever_for_a_checkpoint(launching, folder):
    limits = TrialLimits(checkpoint_seconds=1.0)
    running = launching("writes_a_checkpoint_for_ever").start(folder, SLOT, limits)
    until_it_speaks(folder)

    began = time.monotonic()
    running.stop(grace_seconds=0.5)
    supervision = within(15, running.poll)

    assert supervision.signal == signal.SIGKILL
    assert time.monotonic() - began >= 1.5


def test_kill_does_not_wait_for_a_checkpoint(launching, folder):
    running = launching("writes_a_checkpoint_for_ever").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    running.stop(grace_seconds=600)

    running.kill()

    assert within(10, running.poll).signal == signal.SIGKILL


def test_kill_does_not_wait_for_the_grace_of_a_stop(launching, folder, tmp_path):
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    running.stop(grace_seconds=600)

    running.kill()
    supervision = within(10, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert processes_of(tmp_path) == []


def test_killing_a_trial_that_has_ended_changes_nothing(launching, folder):
    running = launching("completes").start(folder, SLOT, QUICK)
    supervision = within(30, running.poll)

    running.kill()
    running.stop(grace_seconds=0)

    assert running.poll() == supervision


def test_limits_are_enforced_where_the_trial_runs(launching, folder):
    limits = TrialLimits(wall_clock_seconds=0.5, grace_seconds=0.3)
    running = launching("hangs_in_training").start(folder, SLOT, limits)

    assert within(30, running.poll).cause is Cause.WALL_CLOCK


@pytest.mark.parametrize(
    "behaviour", ["kills_itself", "segfaults", "exits_0_without_result", "completes"]
)
def test_a_slot_can_be_used_again_after_every_end(launching, tmp_path, behaviour):
    launcher = launching(behaviour)
    within(30, launcher.start(new_folder(tmp_path, "a"), SLOT, QUICK).poll)

    again = launcher.start(new_folder(tmp_path, "b"), SLOT, QUICK)

    assert within(30, again.poll).pid == again.pid


def test_slots_run_side_by_side(launching, tmp_path):
    launcher = launching("ends_when_asked")
    one = launcher.start(new_folder(tmp_path, "a"), SLOT, QUICK)
    two = launcher.start(new_folder(tmp_path, "b"), Slot(name="second", device=None), QUICK)

    assert one.pid != two.pid
    assert (one.poll(), two.poll()) == (None, None)


def test_closing_leaves_no_process(launching, folder, tmp_path):
    launcher = launching("defies_signal_15_with_grandchildren")
    launcher.start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    launcher.close()

    assert processes_of(tmp_path) == []
