"""One coordinator per study."""

import errno
import json
import os
import socket
import subprocess
import sys

import pytest

from sweeper.errors import RunFolderError, StudyBusy
from sweeper.study.folder import StudyFolder
from sweeper.sweep import coordinator
from sweeper.sweep.coordinator import has_begun, one_of_several, only_coordinator, tell_begun
from sweeper.workers.liveness import birth

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
        assert owner.started_at == birth(os.getpid())
        assert json.loads(folder.coordinator.read_text())["pid"] == os.getpid()


def test_it_has_begun_when_it_says_so_and_until_it_leaves(folder):
    with only_coordinator(folder) as owner:
        before = has_begun(folder, owner.pid)
        tell_begun(folder, owner)
        assert (before, has_begun(folder, owner.pid)) == (False, True)
        assert not has_begun(folder, owner.pid + 1), "nobody else has"
        with pytest.raises(StudyBusy, match=f"process {owner.pid} "), only_coordinator(folder):
            pass

    assert not has_begun(folder, owner.pid)


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


def test_workers_of_two_hosts_share_a_run_folder(folder, monkeypatch):
    with one_of_several(folder) as mine:
        monkeypatch.setattr(coordinator, "host_name", lambda: "box b")
        with one_of_several(folder) as theirs:
            names = [json.loads(file.read_text())["host"] for file in folder.workers]

    assert sorted(names) == sorted([mine.host, "box b"])
    assert theirs.host == "box b"
    assert [file.read_text() for file in folder.workers] == ["", ""]


def test_a_second_worker_of_a_host_is_refused(folder):
    with one_of_several(folder), pytest.raises(StudyBusy) as refusal, one_of_several(folder):
        pass

    (fault,) = refusal.value.faults
    assert fault.what == "a worker of this host runs the study already"
    assert f"process {os.getpid()} on" in fault.got


def test_who_has_to_be_alone_is_refused_while_workers_run_it_and_is_told_who(folder, monkeypatch):
    with one_of_several(folder):
        pass
    monkeypatch.setattr(coordinator, "host_name", lambda: "boxb")
    with one_of_several(folder), pytest.raises(StudyBusy) as refusal, only_coordinator(folder):
        pass

    (fault,) = refusal.value.faults
    assert fault.what == "the study is already being run, by workers"
    assert fault.got == f"process {os.getpid()} on boxb", "the other one has ended"


def test_a_worker_is_refused_where_a_coordinator_is_alone_and_told_the_way_out(folder):
    with only_coordinator(folder), pytest.raises(StudyBusy) as refusal, one_of_several(folder):
        pass

    (fault,) = refusal.value.faults
    assert f"process {os.getpid()} on" in fault.got
    assert "start `sweeper worker STUDY` there too" in fault.hint


def test_a_file_system_without_locks_is_told_as_what_it_is(folder, monkeypatch):
    def refuse(_file, _kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(coordinator.fcntl, "flock", refuse)

    with pytest.raises(RunFolderError, match="No locks available"), one_of_several(folder):
        pass
