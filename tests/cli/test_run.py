"""`sweeper run`: how a study stands after it. The flow tests run whole studies."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import within

from sweeper.cli.run import next_command, print_end
from sweeper.study.folder import StudyFolder
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.study_end import RunStatus, StudyEnd


def end(**changes):
    usual = {
        "name": "rates",
        "folder": Path("/studies/runs/rates"),
        "counts": {"completed": 6, "stopped": 3},
        "status": RunStatus.DONE,
        "ended_early": None,
        "did_nothing": False,
    }
    return StudyEnd(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "printed"),
    [
        (
            {},
            ["rates: 9 trials: 6 completed, 3 stopped", "Recorded in /studies/runs/rates"],
        ),
        (
            {"counts": {"limited": 1}, "status": RunStatus.CRITERIA_NOT_MET},
            [
                "rates: 1 trial: 1 limited",
                "Recorded in /studies/runs/rates",
                (
                    "Limited trials have no endpoint. `sweeper amend` raises a limit for all arms "
                    "and lets them go on."
                ),
            ],
        ),
        (
            {
                "counts": {"completed": 1, "limited": 2},
                "status": RunStatus.CRITERIA_NOT_MET,
                "without_room": ("half/0", "half/1"),
            },
            [
                "rates: 3 trials: 1 completed, 2 limited",
                "Recorded in /studies/runs/rates",
                (
                    "The disk was too full: half/0, half/1. Make room, then `sweeper retry STUDY "
                    "TRIAL` lets each go on."
                ),
            ],
        ),
        (
            {
                "counts": {"limited": 2},
                "status": RunStatus.CRITERIA_NOT_MET,
                "without_room": ("half/0",),
            },
            [
                "rates: 2 trials: 2 limited",
                "Recorded in /studies/runs/rates",
                (
                    "The disk was too full: half/0. Make room, then `sweeper retry STUDY TRIAL` "
                    "lets each go on."
                ),
                (
                    "Limited trials have no endpoint. `sweeper amend` raises a limit for all arms "
                    "and lets them go on."
                ),
            ],
        ),
        (
            {"did_nothing": True},
            [
                "rates had already ended; nothing was run.",
                "rates: 9 trials: 6 completed, 3 stopped",
                "Recorded in /studies/runs/rates",
            ],
        ),
        (
            {
                "counts": {"stopped": 1, "not_run": 8},
                "status": RunStatus.CRITERIA_NOT_MET,
                "ended_early": "baseline_failed: baseline/0 was stopped",
            },
            [
                "rates: 9 trials: 1 stopped, 8 not run",
                "Recorded in /studies/runs/rates",
                "Ended early: baseline_failed: baseline/0 was stopped",
            ],
        ),
        (
            {"counts": {}, "status": RunStatus.INTERRUPTED},
            ["Interrupted; nothing recorded is lost."],
        ),
        (
            {
                "counts": {"waiting": 3},
                "status": RunStatus.CRITERIA_NOT_MET,
                "waits": {"half/0": "no A100", "double/0": "no A100", "half/1": "no H100"},
                "is_late": True,
            },
            [
                "rates: 3 trials: 3 waiting",
                "Recorded in /studies/runs/rates",
                "Waiting: half/0, double/0: no A100",
                "Waiting: half/1: no H100",
                (
                    "The study's deadline is reached; trials that had begun are resumable. A "
                    "later `run.deadline` lets the study go on."
                ),
            ],
        ),
    ],
    ids=[
        "done",
        "a limit",
        "a full disk",
        "a full disk and a limit",
        "nothing to do",
        "ended early",
        "interrupted before the first trial",
        "waits",
    ],
)
def test_the_end_of_a_run_is_told(capsys, changes, printed):
    print_end(end(**changes))

    assert capsys.readouterr().out.splitlines() == printed


def test_a_name_that_no_study_can_have_is_refused(sweeper, studies, tmp_path):
    file = studies.write_file(tmp_path)

    ran = sweeper("run", file, "--as", "../up")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: --as: a study cannot have this name (got '../up'; expected at most 100 letters, "
        "digits, `.`, `_` and `-`; a letter or digit first).\n"
    )


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_run_folder_that_was_moved_is_not_run(sweeper, studies, tmp_path, command):
    recorded = studies.found(tmp_path)
    moved = tmp_path / "elsewhere"
    recorded.folder.path.rename(moved)

    ran = sweeper(command, moved)

    assert ran.status == 2
    assert ran.err == (
        f"error: {moved}: a run folder that was moved can be read, but not run "
        "(expected runs/NAME beside the study file). Name the study file.\n"
    )


def test_a_run_in_the_background_beside_another_is_refused_and_writes_nothing(
    sweeper, studies, tmp_path
):
    recorded = studies.found(tmp_path)
    with only_coordinator(recorded.folder):
        ran = sweeper("run", recorded.file, "--detach")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {recorded.folder.path}: the study is already being run")
    assert not recorded.folder.run_log.exists()


@pytest.mark.slow
def test_a_run_in_the_background_that_ends_before_its_trials_is_told_with_its_status(
    sweeper, studies, tmp_path
):
    """The files of its records and the folder of its model are missing."""
    file = studies.write_file(tmp_path)

    ran = sweeper("run", file, "--detach")

    assert (ran.status, ran.out) == (2, "")
    assert f"error: {tmp_path}/" in ran.err
    log = StudyFolder.beside(file, "rates").run_log
    assert log.read_text() == ran.err
    then = sweeper("status", file)
    assert f"A run in the background wrote to {log} how far it came" in then.err


ON_NO_SERVER = "postgresql+psycopg://me:${STUDY_PASSWORD}@127.0.0.1:1/studies"


@pytest.fixture
def on_no_server(studies, tmp_path, monkeypatch):
    """A study file whose record is to be on a server that is not there."""
    monkeypatch.setenv("STUDY_PASSWORD", "top-secret")
    file = studies.write_file(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("max_resumes: 0", f'max_resumes: 0, storage: "{ON_NO_SERVER}"'))
    return file


def test_a_new_study_whose_server_is_not_there_is_told_before_anything_is_prepared(
    sweeper, on_no_server
):
    ran = sweeper("run", on_no_server)

    assert (ran.status, ran.out) == (2, "")
    assert "the study database cannot be used" in ran.err
    assert "can be reached at 127.0.0.1:1" in ran.err
    assert "top-secret" not in ran.err
    assert not StudyFolder.beside(on_no_server, "rates").prepare_log.exists()


def test_whoever_asks_after_a_study_whose_server_is_away_is_told_what_to_look_at(
    sweeper, on_no_server
):
    folder = StudyFolder.beside(on_no_server, "rates")
    folder.make()
    folder.recorded_study.write_bytes(on_no_server.read_bytes())

    ran = sweeper("status", on_no_server)

    assert (ran.status, ran.out) == (2, "")
    assert "can be reached at 127.0.0.1:1" in ran.err


HEEDING_CTRL_C = """
import signal
from sweeper.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""What a shell starts in the background ignores the signal: these tests may have been."""


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_for_a_run_in_the_background_and_not_the_run(studies, tmp_path):
    file = studies.write_file(tmp_path)
    folder = StudyFolder.beside(file, "rates")
    folder.make()

    with (
        folder.prepare_lock.open("w") as lock,  # so that it cannot get as far as its trials
        subprocess.Popen(
            [sys.executable, "-c", HEEDING_CTRL_C, "run", str(file), "--detach"],
            stdout=subprocess.PIPE,
            text=True,
        ) as waits,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            pid = within(60, lambda: _named_in(folder.coordinator, besides=waits.pid))
            waits.send_signal(signal.SIGINT)
            out, _ = waits.communicate(timeout=60)
        finally:
            waits.kill()
        goes_on = os.getsid(pid) == pid
        os.kill(pid, signal.SIGKILL)

    assert waits.returncode == 130
    assert goes_on
    assert out.splitlines()[0] == (
        f"rates goes on in the background as process {pid}; its log is {folder.run_log}"
    )
    assert f"kill -INT {pid}" in out


def _named_in(coordinator, *, besides):
    """The process that a coordinator file names, once that is another than the one that waits."""
    try:
        named = json.loads(coordinator.read_text())["pid"]
    except (FileNotFoundError, ValueError):
        return None
    return None if named == besides else named


def test_another_coordinator_is_named(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with only_coordinator(recorded.folder):
        ran = sweeper("run", recorded.file)

    assert ran.status == 2
    assert ran.err.startswith(f"error: {recorded.folder.path}: the study is already being run")


NOTHING_BUT_FAILED = {
    "counts": {"failed": 1, "not_run": 8},
    "status": RunStatus.CRITERIA_NOT_MET,
    "ended_early": "the first trial failed: baseline/0 (code_error): no such layer",
}


@pytest.mark.parametrize(
    ("changes", "as_name", "words"),
    [
        ({}, None, ("compare", "rates.yaml")),
        ({}, "again", ("compare", "/studies/runs/rates")),
        ({"status": RunStatus.INTERRUPTED}, None, ("run", "rates.yaml")),
        ({"status": RunStatus.INTERRUPTED}, "again", ("run", "rates.yaml", "--as", "again")),
        (
            {"counts": {"lost": 1, "waiting": 3}, "status": RunStatus.CRITERIA_NOT_MET},
            None,
            ("run", "rates.yaml"),
        ),
        (
            {
                "counts": {"completed": 6, "waiting": 3},
                "status": RunStatus.CRITERIA_NOT_MET,
                "is_late": True,
            },
            None,
            ("compare", "rates.yaml"),
        ),
        (NOTHING_BUT_FAILED, None, ("run", "--replace", "rates.yaml")),
        (
            NOTHING_BUT_FAILED | {"counts": {"stopped": 1, "not_run": 8}},
            None,
            ("compare", "rates.yaml"),
        ),
    ],
)
def test_a_run_names_the_command_that_helps_next(changes, as_name, words):
    named = next_command(end(**changes), Path("rates.yaml"), as_name)

    assert tuple(map(str, named)) == words
