"""A trial that is interrupted goes on from its checkpoint, and ends as if nobody had come by."""

import json
import signal
from pathlib import Path

import pandas as pd
import psutil
import pytest

import sweeper
from sweeper.records import CheckpointMade, Update, decode
from sweeper.workers.heartbeat import Heartbeat

pytestmark = pytest.mark.slow

SETTINGS = {"seeds": "[0]", "slots": "[cpu]", "checkpoint": "{windows: 4}"}
TRIALS = ["baseline/0", "double/0"]

TABLES = {
    "updates": [
        "trial",
        "window",
        "loss",
        "gradient_norm",
        "learning_rate",
        "clipped",
        "record_digest",
    ],
    "evaluations": [
        "trial",
        "split",
        "grid_index",
        "window",
        "loss",
        "target_tokens",
        "set_digest",
    ],
    "trials": [
        "trial",
        "outcome",
        "initial_loss",
        "first_window_loss",
        "validation_loss",
        "retention_loss",
        "last_finite_loss",
        "target_tokens_read",
        "target_tokens_applied",
        "windows",
        "updates",
        "initial_digest",
        "record_digest",
    ],
    "record_losses": [
        "trial",
        "split",
        "grid_index",
        "digest",
        "target_tokens",
        "loss_sum",
    ],
}
"""What a resumed study has like one that was not disturbed, to the bit."""


@pytest.fixture
def interrupted(like_undisturbed):
    """A study being run, its coordinator, and the child of its first trial, frozen.

    The trial has read at least one window more than its newest checkpoint holds.
    """

    def start(*, checkpoints=1):
        study = like_undisturbed(**SETTINGS)
        run = study.start("run", str(study.study))
        child = study.wait_for(lambda: frozen_child(study, checkpoints=checkpoints))
        return study, run, child

    return start


def frozen_child(study, *, checkpoints):
    """The first trial's process, once it has made so many checkpoints and gone on; else None."""
    attempt = study.run_folder / "trials" / "baseline-0" / "attempts" / "1"
    assert not (attempt / "supervision.json").exists(), "it ended before it was interrupted"
    if len(windows(attempt, CheckpointMade)) < checkpoints:
        return None
    child = psutil.Process(Heartbeat.read(attempt / "heartbeat.json").pid)
    child.send_signal(signal.SIGSTOP)
    if windows(attempt, Update)[-1] > windows(attempt, CheckpointMade)[-1]:
        return child
    child.send_signal(signal.SIGCONT)
    return None


def is_asked_to_end(child):
    """Whether signal 15 waits for the frozen process."""
    status = Path(f"/proc/{child.pid}/status").read_text()
    (pending,) = (line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd"))
    return bool(int(pending, 16) >> (signal.SIGTERM - 1) & 1)


def windows(attempt, kind):
    """The windows of the attempt's records so far; a line that is being written is left out."""
    file = attempt / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    said = [decode(line).record for line in lines if line.endswith("}")]
    return [record.window for record in said if isinstance(record, kind)]


def assert_alike(study, undisturbed):
    for table, columns in TABLES.items():
        mine, theirs = (getattr(sweeper, table)(each.study) for each in (study, undisturbed))
        theirs = theirs[theirs["trial"].isin(TRIALS)].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine[columns], theirs[columns], check_exact=True)
    assert weights_of(study) == weights_of(undisturbed)


def weights_of(study):
    folders = sweeper.trials(study.study).set_index("trial")["adapter_path"]
    return [
        (study.run_folder / folders[trial] / "adapter_model.safetensors").read_bytes()
        for trial in TRIALS
    ]


def attempts_of(study):
    """The two attempts at the trial that was interrupted."""
    first, second = sweeper.attempts(study.study, "baseline/0").itertuples()
    return first, second


def test_after_kill_minus_9(interrupted, undisturbed):
    study, run, child = interrupted()

    child.kill()

    assert run.wait(timeout=200) == 0, study.log.read_text()
    first, second = attempts_of(study)
    assert (first.reason, second.outcome) == ("killed", "completed")
    assert second.resumed_after_window == first.checkpoint_window
    told = f"baseline/0 goes on after window {first.checkpoint_window} of attempt 1"
    assert told in study.log.read_text()
    assert_alike(study, undisturbed)


def test_after_ctrl_c_and_the_same_command_again(interrupted, undisturbed):
    study, run, child = interrupted()
    stood = windows(study.run_folder / "trials/baseline-0/attempts/1", Update)[-1]

    run.send_signal(signal.SIGINT)
    study.wait_for(lambda: is_asked_to_end(child))
    child.send_signal(signal.SIGCONT)
    assert run.wait(timeout=60) == 130
    study.sweeper("run", str(study.study))

    first, second = attempts_of(study)
    assert first.reason == "user_cancelled"
    assert second.resumed_after_window == first.checkpoint_window
    assert first.checkpoint_window >= stood, "it was saved when it was asked to end"
    assert_alike(study, undisturbed)


def test_after_its_machine_was_taken_back(interrupted, undisturbed):
    study, run, child = interrupted()

    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGCONT)

    assert run.wait(timeout=200) == 0, study.log.read_text()
    first, second = attempts_of(study)
    assert (first.reason, second.outcome) == ("preempted", "completed")
    assert second.resumed_after_window == first.checkpoint_window
    assert_alike(study, undisturbed)


def test_from_the_checkpoint_before_one_that_was_damaged(interrupted, undisturbed):
    study, run, child = interrupted(checkpoints=2)
    checkpoints = study.run_folder / "trials/baseline-0/attempts/1/checkpoints"
    newest = max(path for path in checkpoints.iterdir() if path.name.isdigit())
    file = next(newest.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")

    child.kill()

    assert run.wait(timeout=200) == 0, study.log.read_text()
    _, second = attempts_of(study)
    assert second.resumed_after_window == int(newest.name) - 4
    shown = json.loads(study.here("show", str(study.study), "baseline/0", "--json").stdout)
    assert any(str(newest) in note["text"] for note in shown["notes"])
    assert_alike(study, undisturbed)
