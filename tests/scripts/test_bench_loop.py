"""The benchmark compares loops that do the same work, and says what it could not measure."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A look at the smallest size, as a user would take it."""
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    command = [
        *(sys.executable, str(ROOT / "scripts/bench_loop.py"), "--quick"),
        *("--device", "cpu", "--size", "tiny", "--json", str(file)),
        *("--only", "ours", "bare loop", "Trainer", "TRL"),
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, json.loads(file.read_text("utf-8"))


def test_the_loop_and_the_bare_one_end_with_the_same_weights(measured):
    """The ratio of their times is the cost of records and checks, and of nothing else."""
    out, figures = measured
    (ours,), (bare,) = figures["together"]["ours"], figures["together"]["bare loop"]
    assert ours["weights"] == bare["weights"]
    assert "ours ends with the weights of bare loop: yes, every bit" in out


def test_the_trainer_has_done_the_same_work(measured):
    """Its loss over the first ten windows is ours, but for the order of float32 sums."""
    _, figures = measured
    (ours,), (theirs,) = figures["apart"]["ours"], figures["apart"]["Trainer"]
    assert ours["loss"] == pytest.approx(theirs["loss"], abs=5e-6)


def test_the_table_names_the_aim_beside_the_ratio(measured):
    out, _ = measured
    (row,) = [line for line in out.splitlines() if line.startswith("records, checks")]
    assert row.split()[-1] == "1.02"


@pytest.mark.skipif(importlib.util.find_spec("trl") is not None, reason="trl is installed")
def test_what_is_not_installed_is_named_with_the_way_to_install_it(measured):
    out, figures = measured
    assert "TRL: not measured, trl is not installed (pip install 'sweeper[bench]')" in out
    assert "TRL" not in figures["apart"]


def test_checkpoints_of_an_adapter_are_smaller_than_those_of_a_whole_model(measured):
    _, figures = measured
    sizes = {kind["tune"]: kind["size_bytes"] for kind in figures["checkpoints"]}
    assert sizes["adapter"] < sizes["full"]
