"""A coordinator without a terminal."""

import json
import os
import signal
import sys

import pytest

from sweeper.errors import RunFolderError, StudyBusy
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.detaching import start_detached, wait_for_beginning


@pytest.fixture
def detached(study, request):
    """Starts a coordinator of the study, which lies beside this file as a script, detached."""
    script = request.path.with_name("small_study.py")
    started = []

    def start():
        environment_is_ours = [sys.executable, str(script), str(study.place)]
        one = start_detached(environment_is_ours, study.folder)
        started.append(one.process)
        return one

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def from_the_repository(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


@pytest.mark.slow
@pytest.mark.usefixtures("from_the_repository")
def test_it_has_begun_once_its_trials_run_and_ends_like_any_other(study, detached, attempts):
    study.behave({"baseline/0": ["slow"]})

    one = detached()
    status = wait_for_beginning(one, tell=pytest.fail)

    assert status is None
    assert study.folder.recorded_study.exists(), "the study is founded"
    assert os.getsid(one.process.pid) == one.process.pid, "no terminal can hang up on it"
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(60) == 130
    assert attempts(study) in ([], [("baseline/0", "cancelled", "user_cancelled")])


@pytest.mark.slow
@pytest.mark.usefixtures("from_the_repository")
def test_one_that_is_refused_when_it_already_coordinates_ends_the_wait_with_what_it_said(
    founded, detached
):
    """It is another study than the recorded one, which nobody knows before it is planned."""
    file = founded.place / "small.yaml"
    file.write_text(file.read_text().replace("2e-4", "3e-4"))
    founded.folder.logs.mkdir(exist_ok=True)
    founded.folder.run_log.write_text("of an earlier run\n")
    told = []

    status = wait_for_beginning(detached(), tell=told.append)

    assert status == 1, "as a script that raises"
    assert any("StudyConflict" in line for line in told)
    assert "of an earlier run" not in told


def test_lines_are_told_whole_and_as_they_come(study, request):
    script = "import sys; sys.stdout.buffer.write(b'read\\xc3\\xa9\\nhalf \\xff'); sys.exit(3)"
    told = []

    one = start_detached([sys.executable, "-c", script], study.folder)

    assert wait_for_beginning(one, tell=told.append) == 3
    assert told == ["read\xe9", "half \\xff"]


def test_one_that_a_signal_ends_is_told_with_it(study):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    one = start_detached([sys.executable, "-c", script], study.folder)

    assert wait_for_beginning(one, tell=pytest.fail) == -signal.SIGKILL


def test_beside_a_run_none_is_started_and_nothing_is_written_into_its_log(study):
    study.folder.logs.mkdir(parents=True)
    study.folder.run_log.write_text("of the run\n")

    with only_coordinator(study.folder) as owner:
        with pytest.raises(StudyBusy, match=f"process {owner.pid} "):
            start_detached(["echo", "refused"], study.folder)
        assert json.loads(study.folder.coordinator.read_text())["pid"] == owner.pid

    assert study.folder.run_log.read_text() == "of the run\n"


def test_the_run_folder_is_made_for_this_user_only(study):
    wait_for_beginning(start_detached(["true"], study.folder), tell=pytest.fail)

    assert study.folder.path.stat().st_mode & 0o777 == 0o700


def test_a_log_that_cannot_be_written_is_told(study):
    study.folder.path.mkdir(parents=True)
    study.folder.logs.touch()

    with pytest.raises(RunFolderError, match="cannot be written"):
        start_detached(["true"], study.folder)
