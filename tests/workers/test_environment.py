from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.environment import trial_environment
from sweeper.workers.slots import Slot

FOLDER = AttemptFolder(Path("/runs/x/trials/double-2/attempts/1"))


@pytest.mark.parametrize(("device", "value"), [("MIG-0a1b", "MIG-0a1b"), ("10", "10"), (None, "")])
def test_a_trial_sees_the_device_of_its_slot_and_no_other(device, value):
    environment = trial_environment(FOLDER, Slot(name="x", device=device))

    assert environment["CUDA_VISIBLE_DEVICES"] == value


def test_threads_are_pinned_to_the_slots_and_wait_without_spinning():
    environment = trial_environment(FOLDER, Slot(name="x", device=None, threads=3))

    threads = {environment[f"{library}_NUM_THREADS"] for library in ("OMP", "MKL", "OPENBLAS")}
    assert threads == {"3"}
    assert environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert environment["GOMP_SPINCOUNT"] == "0"


def test_what_would_make_runs_differ_is_fixed():
    environment = trial_environment(FOLDER, Slot(name="x", device=None))

    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert environment["FLASH_ATTENTION_DETERMINISTIC"] == "1"


def test_progress_bars_stay_out_of_the_log():
    environment = trial_environment(FOLDER, Slot(name="x", device=None))

    assert environment["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"


def test_a_process_can_be_traced_to_its_attempt():
    environment = trial_environment(FOLDER, Slot(name="x", device=None))

    assert environment["SWEEPER_ATTEMPT"] == "/runs/x/trials/double-2/attempts/1"
