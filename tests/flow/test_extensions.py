"""A further arm in a study of real trials: decided, run, compared, frozen."""

import json

import pytest

import sweeper

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory, tiny_model, set_up):
    """At such small rates the higher one always gets further in the same budget."""
    made = set_up(
        tmp_path_factory.mktemp("extended"),
        tiny_model,
        seeds="[0, 1, 2]",
        budget=120,
        every=60,
        rate="1e-4",
        slots="[cpu]",
    )
    text = made.study.read_text()
    made.study.write_text(f"{text}selection: {{extensions: 1}}\n")
    return made


def test_a_study_whose_best_rate_is_at_the_edge_goes_on_beyond_it(study):
    told = study.here("check", str(study.study)).stdout
    ran = study.sweeper("run", str(study.study))

    assert "which is 3 trials of 120 target tokens, 360 in all" in " ".join(told.split())
    assert "round 1: double is at the edge, so x4 (0.0004) is added" in ran.stderr
    trials = sweeper.trials(study.study).set_index("trial")
    assert trials["round"].tolist() == [0] * 6 + [1] * 3
    assert trials.loc["x4/0", "learning_rate"] == 4e-4
    assert set(trials["target_tokens_read"]) == {120}
    assert (trials["outcome"] == "completed").all()
    found = sweeper.compare(study.study)
    assert [(arm.arm, arm.summary.round, arm.breaks) for arm in found.arms] == [
        ("double", 0, ()),
        ("x4", 1, ()),
    ]
    assert found.arms[1].difference.mean < found.arms[0].difference.mean < 0
    assert "Round 1: x4 (0.0004) was added" in study.here("status", str(study.study)).stdout
    assert json.loads((study.run_folder / "plan.json").read_text())["cells"][-1]["round"] == 1
