"""What a coordinator finds that starts after another one died."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import aftermath
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.limits import TrialLimits
from sweeper.workers.process_tree import MARKER
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause, Supervision

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 12, 1, tzinfo=UTC)
SLOT = Slot(name="cpu 1", device=None)
LONG_GONE = {"supervisor_pid": 2**22 - 1, "supervisor_started_at": 1.0}

pytestmark = pytest.mark.usefixtures("survivors")


@pytest.fixture
def beat():
    return Heartbeat(
        at=LATER,
        began_at=NOON,
        pid=7,
        started_at=5.0,
        wall_seconds=60.0,
        memory_bytes=10,
        peak_memory_bytes=20,
        **LONG_GONE,
    )


def test_an_end_that_the_supervisor_recorded_is_taken_from_its_record(new_folder):
    folder = new_folder()
    recorded = Supervision(
        cause=Cause.COORDINATOR_LOST,
        pid=7,
        started_at=5.0,
        exit_status=0,
        signal=None,
        wall_seconds=61.0,
        peak_memory_bytes=20,
        began_at=NOON,
        ended_at=LATER,
        **LONG_GONE,
    )
    recorded.write(folder.supervision)

    assert aftermath(folder) == recorded


def test_an_end_that_nobody_saw_is_a_loss_with_the_last_heartbeats_numbers(new_folder, beat):
    folder = new_folder()
    beat.write(folder.heartbeat)

    supervision = aftermath(folder)

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert (supervision.pid, supervision.started_at) == (7, 5.0)
    assert (supervision.wall_seconds, supervision.peak_memory_bytes) == (60.0, 20)
    assert supervision.began_at == NOON
    assert Supervision.read(folder.supervision) == supervision


def test_an_attempt_that_never_started_is_a_loss_without_a_process(new_folder):
    supervision = aftermath(new_folder())

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.pid is None
    assert supervision.wall_seconds == 0.0


def test_what_still_runs_of_the_attempt_is_ended_first(new_folder, beat, survivors):
    folder = new_folder()
    beat.write(folder.heartbeat)
    environment = {MARKER: str(folder.path)}
    argv = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment):
        supervision = aftermath(folder)

        assert survivors() == []
        assert supervision.detail == "neither its coordinator nor its supervisor saw the end"


def test_a_supervisor_that_is_just_ending_the_trial_is_waited_for(
    behaving, new_folder, eventually, said
):
    folder = new_folder()
    launcher = behaving("defies_signal_15_with_grandchildren")
    launcher.start(folder, SLOT, TrialLimits())
    eventually(lambda: said(folder))
    closing = threading.Thread(target=launcher.close)
    closing.start()

    supervision = aftermath(folder)

    closing.join()
    assert supervision.cause is Cause.STOPPED
    assert supervision.detail == "the coordinator closed its slots"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"cause": "exited"}'])
def test_files_damaged_by_a_crash_of_the_host_count_as_not_there(new_folder, text):
    folder = new_folder()
    folder.heartbeat.write_text(text, encoding="utf-8")
    folder.supervision.write_text(text, encoding="utf-8")

    supervision = aftermath(folder)

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert Supervision.read(folder.supervision) == supervision


def test_an_attempt_is_found_through_a_symbolic_link_to_its_study(new_folder, tmp_path, survivors):
    folder = new_folder()
    (tmp_path / "link").symlink_to(folder.path, target_is_directory=True)
    environment = {MARKER: str(folder.path)}
    argv = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment):
        aftermath(AttemptFolder(tmp_path / "link"))

        assert survivors() == []
