"""The example of failure keeps failing the way it says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sweeper

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unstable(tmp_path_factory):
    """`studies/unstable.yaml` with its first seed alone, run in a folder of its own."""
    pytest.importorskip("chatterbot_corpus", reason="the example's records come from it")
    folder = tmp_path_factory.mktemp("studies")
    text = (ROOT / "studies" / "unstable.yaml").read_text()
    assert "seeds: [0, 1, 2]" in text
    study = folder / "unstable.yaml"
    study.write_text(text.replace("seeds: [0, 1, 2]", "seeds: [0]"))
    shutil.copytree(ROOT / "studies" / "models" / "primer-1m", folder / "models" / "primer-1m")
    writer = ROOT / "scripts" / "quickstart_data.py"
    command = [sys.executable, writer, "--output", folder / "data"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "sweeper", "run", study],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return study


def test_the_doubled_rate_is_stopped_and_the_others_complete(unstable):
    outcomes = sweeper.trials(unstable).set_index("arm")["outcome"].to_dict()

    assert outcomes == {"baseline": "completed", "half": "completed", "double": "stopped"}


def test_the_stopped_trial_keeps_its_reason_its_window_and_its_last_finite_loss(unstable):
    row = sweeper.trials(unstable).set_index("arm").loc["double"]

    assert row["reason"] == "diverged"
    assert "more than 1.0 above the initial" in row["detail"]
    assert row["windows"] < sweeper.trials(unstable).set_index("arm").loc["half", "windows"]
    assert row["last_finite_loss"] > row["initial_loss"]


def test_the_sentence_counts_the_stopped_trial_and_says_where_it_stopped(unstable):
    (double,) = (arm for arm in sweeper.compare(unstable).arms if arm.arm == "double")
    read = sweeper.trials(unstable).set_index("arm").loc["double", "target_tokens_read"]

    assert double.verdict.label == "unstable:1/1"
    assert double.verdict.sentence.startswith("double diverged in 1 of 1 seed (at ")
    assert str(read) in double.verdict.sentence
