"""Whoever is killed between two writes, ours or Optuna's, is made good by the next run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("crash_points.py")


@pytest.mark.slow
def test_a_coordinator_killed_at_any_commit_leaves_both_records_as_if_it_had_not_been(tmp_path):
    """Right before every COMMIT of a small study, which is right after the one before it; the
    script tries both, on PostgreSQL too.
    """
    tried = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "--sides", "before"],
        capture_output=True,
        text=True,
        check=False,
        cwd=SCRIPT.parents[2],
    )

    told = json.loads(tried.stdout)
    assert told["wrong"] == []
    assert told["tried"] == told["commits"] >= 30
    assert tried.returncode == 0
