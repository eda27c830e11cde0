"""One coordinator per study."""

import json
import os
import socket
import subprocess
import sys

import psutil
import pytest

from sweeper.errors import RunFolderError, StudyBusy
from sweeper.study.folder import StudyFolder
from sweeper.sweep.coordinator import only_coordinator

HOLD = """
import sys, time
from pathlib import Path
from sweeper.study.folder import StudyFolder
from sweeper.sweep.coordinator import only_coordinator
with only_coordinator(StudyFolder(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path):
    return StudyFolder(tmp_path / "runs" / "small")


def test_the_folder_is_made_and_the_owner_is_this_process(folder):
    with only_coordinator(folder) as owner:
        assert (owner.host, owner.pid) == (socket.gethostname(), os.getpid())
        assert owner.started_at == repr(psutil.Process().create_time())
        assert json.loads(folder.coordinator.read_text())["pid"] == os.getpid()


def test_a_second_coordinator_is_refused_with_host_and_process(folder):
    with only_coordinator(folder), pytest.raises(StudyBusy) as refusal, only_coordinator(folder):
        pass

    (fault,) = refusal.value.faults
    assert fault.got == f"a coordinator, process {os.getpid()} on {socket.gethostname()}"


def test_the_next_one_may_come_when_the_first_has_left(folder):
    with only_coordinator(folder):
        pass
    with only_coordinator(folder):
        pass

    assert folder.coordinator.read_text() == ""


def test_a_killed_coordinator_leaves_no_lock_behind(folder):
    command = [sys.executable, "-c", HOLD, str(folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyBusy, match=f"process {holder.pid} "), only_coordinator(folder):
            pass
        holder.kill()

    with only_coordinator(folder) as owner:
        assert owner.pid == os.getpid()


def test_a_folder_that_cannot_be_made_is_refused_with_its_path(tmp_path):
    (tmp_path / "runs").write_text("a file, not a folder")

    with (
        pytest.raises(RunFolderError, match="runs/small: the run folder cannot be written"),
        only_coordinator(StudyFolder(tmp_path / "runs" / "small")),
    ):
        pass


def test_a_disk_without_room_is_told_as_what_it_is(tmp_path):
    """`/dev/full` takes no byte; a real full disk differs in the number of the error alone."""
    folder = StudyFolder(tmp_path / "runs" / "x")
    folder.path.mkdir(parents=True)
    folder.coordinator.symlink_to("/dev/full")

    with (
        pytest.raises(RunFolderError, match="run folder cannot be written"),
        only_coordinator(folder),
    ):
        pytest.fail("nobody coordinates")
