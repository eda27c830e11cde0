"""scripts/resume_check.py interrupts trials and tells an equal one from one that is not."""

import importlib.util
import logging
import sys
from pathlib import Path

import pytest
import torch
from transformers.utils.logging import enable_progress_bar

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/resume_check.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("resume_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["resume_check"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def restored():
    """Puts back what the script sets for its whole process."""
    threads = torch.get_num_threads()
    yield
    logging.disable(logging.NOTSET)
    enable_progress_bar()
    torch.use_deterministic_algorithms(mode=False)
    torch.set_num_threads(threads)


def test_a_trial_of_the_first_mode_is_interrupted_and_equal(script, capsys):
    status = script.main(["--times", "1", "--kills", "0"])
    _, first, *_ = capsys.readouterr().out.splitlines()
    assert status == 0
    assert first.split() == [
        "adapter",
        "with",
        "dropout",
        "1",
        "0",
        first.split()[5],
        "0",
        "0",
        "1/1",
    ]


def test_a_trial_whose_random_states_do_not_come_back_is_named(script, capsys, monkeypatch):
    monkeypatch.setattr("sweeper.training.snapshot.set_random_states", lambda *_: None)
    status = script.main(["--times", "1", "--kills", "0"])
    _, first, second, *_ = capsys.readouterr().out.splitlines()
    assert status == 1
    assert first.endswith("0/1")
    assert second.startswith("    not equal: after windows [")
