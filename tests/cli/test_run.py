"""`sweeper run`: how a study stands after it. The flow tests run whole studies."""

from pathlib import Path

import pytest

from sweeper.cli.run import next_command, print_end
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


@pytest.mark.slow
def test_a_run_in_the_background_that_cannot_begin_is_told_with_its_status(
    sweeper, studies, tmp_path
):
    recorded = studies.found(tmp_path)
    with only_coordinator(recorded.folder):
        ran = sweeper("run", recorded.file, "--detach")

    assert (ran.status, ran.out) == (2, "")
    assert f"{recorded.folder.path}: the study is already being run" in ran.err


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
