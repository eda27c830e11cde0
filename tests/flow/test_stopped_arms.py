"""Arms that break are findings: kept with their reason, never averaged away."""

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


def test_an_arm_that_is_stopped_in_every_seed_is_unstable_and_the_study_is_done(laboratory):
    study = laboratory(**WILD, rate="2e-3", arms="{baseline: 1, double: 500}", seeds="[0, 1]")

    study.sweeper("run", str(study.study))

    rows = sweeper.trials(study.study).set_index("trial")
    assert rows.loc[["double/0", "double/1"], "outcome"].tolist() == ["stopped", "stopped"]
    assert rows["validation_loss"].isna().tolist() == [False, True, False, True]
    assert rows.loc[["double/0", "double/1"], "last_finite_loss"].notna().all()
    comparison = json.loads(study.sweeper("compare", str(study.study), "--json").stdout)
    assert comparison["arms"][0]["verdict"]["label"] == "unstable:2/2"


def test_a_baseline_that_is_stopped_itself_ends_the_study_early(laboratory):
    study = laboratory(
        **WILD, rate="1.0", arms="{baseline: 1, half: 0.001}", seeds="[0, 1]", slots="[cpu]"
    )

    ended = study.sweeper("run", str(study.study), expect=3)

    rows = sweeper.trials(study.study).set_index("trial")
    assert rows.loc["baseline/0", "outcome"] == "stopped"
    assert rows.loc[["half/0", "baseline/1", "half/1"], "status"].tolist() == ["not_run"] * 3
    assert "baseline" in ended.stdout
    comparison = json.loads(study.sweeper("compare", str(study.study), "--json").stdout)
    assert comparison["choice"]["arm"] is None
