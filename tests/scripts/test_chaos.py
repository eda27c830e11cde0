"""A few faults on a real study, with everything that scripts/chaos.py asks of hundreds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAULTS = 7
ASKED = {
    "did not end",
    "lost trials",
    "cells with two owners",
    "leftover processes",
    "differences",
    "unexplained faults",
    "unexplained ends",
    "unexplained exits",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "studies/models/primer-1m").is_dir(),
        reason="studies/models/primer-1m is not in this checkout",
    ),
]


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """A study of two cells under a few faults, as a user would ask for it."""
    file = tmp_path_factory.mktemp("chaos") / "found.json"
    command = [
        *(sys.executable, str(ROOT / "scripts/chaos.py"), "--faults", str(FAULTS), "--seed", "5"),
        *("--seeds", "1", "--target-tokens", "1000", "--json", str(file)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout, json.loads(file.read_text("utf-8"))


def test_everything_was_asked_and_nothing_found(disturbed):
    _, studies = disturbed
    assert {asked for study in studies for asked in study["problems"]} == ASKED
    assert [told for study in studies for told in study["problems"].values() if told] == []


def test_each_fault_is_on_the_log_with_what_came_of_it(disturbed):
    out, studies = disturbed
    faults = [fault for study in studies for fault in study["faults"]]

    assert sorted(fault["number"] for fault in faults) == list(range(1, FAULTS + 1))
    assert all(fault["came_of_it"] for fault in faults)
    assert "unexplained faults: 0" in out
