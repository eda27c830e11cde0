"""The race of claims in short; `scripts/claims_race.py --rounds 20` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "claims_race.py"
OPTIONS = ("--rounds", "1", "--spoiled-rounds", "1", "--cells", "16", "--skip", "stock")


@pytest.mark.slow
def test_eight_processes_claim_each_cell_once_and_twice_only_without_the_guard():
    """Stock Optuna is left to the long one: it needs luck to hand a trial out twice."""
    race = subprocess.run(
        [sys.executable, SCRIPT, *OPTIONS],
        capture_output=True,
        text=True,
        check=False,
    )

    assert race.returncode == 0, race.stdout + race.stderr
    found = [line.split() for line in race.stdout.splitlines()[1:]]
    assert [
        (way, database, int(twice), int(missed)) for way, database, _, _, twice, missed, _ in found
    ] == [
        ("ours", "sqlite", 0, 0),
        ("ours", "postgresql", 0, 0),
        ("barrier", "sqlite", 0, 0),
        ("barrier", "postgresql", 0, 0),
        ("unguarded", "sqlite", 16, 0),
        ("unguarded", "postgresql", 16, 0),
    ]
