"""A coordinator without a terminal."""

import os
import signal
import sys

import pytest

from sweeper.errors import RunFolderError
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.detaching import start_detached


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
def test_it_returns_once_the_study_is_coordinated_and_ends_like_any_other(
    study, detached, attempts
):
    study.behave({"baseline/0": ["slow"]})

    one = detached()

    assert one.process.returncode is None
    assert os.getsid(one.process.pid) == one.process.pid, "no terminal can hang up on it"
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(60) == 130
    assert attempts(study) in ([], [("baseline/0", "cancelled", "user_cancelled")])


@pytest.mark.usefixtures("from_the_repository")
def test_one_that_cannot_begin_is_told_with_what_it_said(study, detached):
    study.behave({})
    with only_coordinator(study.folder):
        one = detached()

    assert one.process.returncode == 1
    assert "the study is already being run" in one.said


def test_a_log_that_cannot_be_written_is_told(study):
    study.folder.path.mkdir(parents=True)
    study.folder.logs.touch()

    with pytest.raises(RunFolderError, match="cannot be written"):
        start_detached(["true"], study.folder)
