"""kill -9 of anything, in mid-run: nothing is lost, nothing is left, and the end is the same."""

import json
import signal

import psutil
import pytest

import sweeper
from sweeper.records import Update, decode

pytestmark = pytest.mark.slow

SETTINGS = {"seeds": "[0]", "budget": 1500, "every": 400}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, tiny_model, set_up):
    """The losses of the same study when nobody disturbs it."""
    laboratory = set_up(tmp_path_factory.mktemp("undisturbed"), tiny_model, **SETTINGS)
    laboratory.sweeper("run", str(laboratory.study))
    return losses(laboratory)


def losses(laboratory):
    frame = sweeper.updates(laboratory.study)
    return {trial: rows["loss"].tolist() for trial, rows in frame.groupby("trial")}


def updates_of(folder):
    """Updates that the attempt in this folder has reported so far."""
    file = folder / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    whole = [line for line in lines if line.endswith("}")]
    return sum(isinstance(decode(line).record, Update) for line in whole)


def in_mid_training(laboratory):
    """An attempt's child that has trained a few windows and is frozen there, or None."""
    for folder in sorted(laboratory.run_folder.glob("trials/*/attempts/*")):
        if (folder / "supervision.json").exists() or not 1 <= updates_of(folder) <= 30:
            continue
        for process in laboratory.processes():
            if str(folder) in " ".join(process.cmdline()) and "sweeper.trial" in process.cmdline():
                process.send_signal(signal.SIGSTOP)
                return process
    return None


def victim(laboratory, whom, run):
    child = laboratory.wait_for(lambda: in_mid_training(laboratory))
    return {"trial": child, "supervisor": child.parent(), "coordinator": psutil.Process(run.pid)}[
        whom
    ]


def never_two_owners(laboratory):
    frame = sweeper.attempts(laboratory.study).sort_values(["trial", "attempt"])
    return all(
        (rows["claimed_at"].iloc[1:].values >= rows["ended_at"].iloc[:-1].values).all()
        for _, rows in frame.groupby("trial")
    )


@pytest.mark.parametrize("whom", ["trial", "supervisor", "coordinator"])
def test_after_kill_minus_9_of_the(whom, laboratory, undisturbed):
    """The study ends like an undisturbed one, and the killed attempt is on record."""
    study = laboratory(**SETTINGS)
    run = study.start("run", str(study.study))

    victim(study, whom, run).kill()

    if whom == "coordinator":
        run.wait(timeout=60)
        study.wait_for(lambda: not study.processes(), seconds=10)
        study.sweeper("run", str(study.study))
    else:
        assert run.wait(timeout=200) == 0, study.log.read_text()
    lost = sweeper.attempts(study.study).query("outcome == 'lost'")
    assert lost["reason"].tolist() == [{"trial": "killed"}.get(whom, "worker_lost")]
    assert sweeper.trials(study.study)["outcome"].tolist() == ["completed", "completed"]
    assert losses(study) == undisturbed
    assert never_two_owners(study)
    study.wait_for(lambda: not study.processes(), seconds=10)


def test_ctrl_c_ends_resumable_and_the_same_command_goes_on(laboratory, undisturbed):
    study = laboratory(**SETTINGS)
    run = study.start("run", str(study.study))
    child = study.wait_for(lambda: in_mid_training(study))

    run.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGCONT)

    assert run.wait(timeout=60) == 130
    study.wait_for(lambda: not study.processes(), seconds=10)
    assert (
        "waiting"
        in json.loads(study.sweeper("status", str(study.study), "--json").stdout)["counts"]
    )
    study.sweeper("run", str(study.study))
    assert losses(study) == undisturbed
