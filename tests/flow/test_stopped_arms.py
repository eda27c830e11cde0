"""A baseline that breaks is a finding: the study ends. Other arms that do: see `test_replay.py`."""

import json

import pytest

import sweeper

pytestmark = pytest.mark.slow

WILD = {
    "tune": "tune: full",
    "clip": "null",
    "budget": 600,
    "every": 100,
}


def test_a_baseline_that_is_stopped_itself_ends_the_study_early(laboratory):
    study = laboratory(
        **WILD, rate="1.0", arms="{baseline: 1, half: 0.001}", seeds="[0, 1]", slots="[cpu]"
    )

    ended = study.sweeper("run", str(study.study), expect=3)

    rows = sweeper.trials(study.study).set_index("trial")
    assert rows.loc["baseline/0", "outcome"] == "stopped"
    assert rows.loc[["half/0", "baseline/1", "half/1"], "status"].tolist() == ["not_run"] * 3
    assert "baseline" in ended.stdout
    comparison = json.loads(study.here("compare", str(study.study), "--json").stdout)
    assert comparison["choice"]["arm"] is None
