"""`python -m sweeper.trial FOLDER` as a real process, on its own and under a supervisor."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from waiting import within

from sweeper.records import Evaluation, Outcome, Reason, Update, decode
from sweeper.training.checkpoint import checkpoint_folders, read_checkpoint

pytestmark = pytest.mark.slow


@pytest.fixture
def start(attempt):
    """Starts the trial of a spec as a process of its own; ends it if the test does not."""
    processes = []

    def process(spec):
        folder = attempt(spec)
        argv = [sys.executable, "-m", "sweeper.trial", str(folder.path)]
        started = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={"PATH": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        )
        processes.append(started)
        return started, folder

    yield process
    for started in processes:
        with started:
            started.kill()


def records_of(folder):
    return [decode(line).record for line in folder.events.read_text("utf-8").splitlines()]


def numbers_of(folder):
    """Everything that was computed, bit by bit, and nothing that was timed."""
    return [
        (record.loss, record.gradient_norm, record.learning_rate, record.record_digest)
        if isinstance(record, Update)
        else (record.split, record.index, record.loss)
        for record in records_of(folder)
        if isinstance(record, Update | Evaluation)
    ]


def until_it_trains(folder):
    within(120, lambda: folder.events.exists() and b'"update"' in folder.events.read_bytes())


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft reads it
def test_two_runs_of_one_spec_agree_in_every_bit_and_leave_an_adapter_that_loads(bench, start):
    spec = bench.spec(budget=200)
    (first, one), (second, two) = start(spec), start(spec)

    assert (first.wait(), second.wait()) == (0, 0)

    assert records_of(one)[-1].reason is Reason.BUDGET_REACHED
    assert len(numbers_of(one)) == spec.planned.windows + 2 * 3  # evaluated at 0, 100 and 200
    assert numbers_of(one) == numbers_of(two)
    weights = [folder.adapter / "adapter_model.safetensors" for folder in (one, two)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    base = AutoModelForCausalLM.from_pretrained(bench.model)
    assert PeftModel.from_pretrained(base, one.adapter).peft_config["default"].r == 2
    assert len(AutoTokenizer.from_pretrained(one.adapter)) == 64


def test_signal_15_ends_a_training_trial_as_preempted_with_a_checkpoint_of_its_last_window(
    bench, start
):
    trial, folder = start(bench.spec(budget=100_000))
    until_it_trains(folder)

    trial.send_signal(signal.SIGTERM)

    assert trial.wait(30) == 0
    outcome = records_of(folder)[-1]
    assert isinstance(outcome, Outcome)
    assert outcome.reason is Reason.PREEMPTED
    assert not folder.adapter.exists()
    last = [record for record in records_of(folder) if isinstance(record, Update)][-1].window
    (checkpoint,) = checkpoint_folders(folder.path / "checkpoints")
    assert read_checkpoint(checkpoint).window == last


def test_both_watches_are_in_place_while_the_libraries_are_still_being_loaded(bench, start):
    """Signal 15 alone would end a process that had not taken it over."""
    trial, folder = start(bench.spec())
    within(60, folder.events.exists)

    trial.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        trial.wait(0.3)

    trial.stdin.close()
    assert trial.wait(5) == -signal.SIGKILL


def test_a_second_attempt_in_a_folder_is_refused_and_changes_nothing(bench, attempt):
    folder = attempt(bench.spec())
    folder.events.write_text("an earlier history\n", encoding="utf-8")

    argv = [sys.executable, "-m", "sweeper.trial", str(folder.path)]
    refused = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert "this attempt has run before" in refused.stderr
    assert folder.events.read_text("utf-8") == "an earlier history\n"
