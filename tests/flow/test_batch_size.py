"""A study of the batch size on a real model: other windows, the same records to the token."""

import json

import pytest

import sweeper

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory, tiny_model, set_up):
    """Two arms of 4 and 8 records per update, one seed; nothing else differs."""
    made = set_up(
        tmp_path_factory.mktemp("batches"),
        tiny_model,
        seeds="[0]",
        budget=300,
        every=150,
        slots="[cpu]",
    )
    text = made.study.read_text()
    text = text.replace("key: training.learning_rate", "key: training.records_per_update")
    made.study.write_text(text.replace("kind: rate_too_high", "kind: which"))
    return made


def test_arms_of_other_batch_sizes_read_the_same_in_other_windows(study):
    check = json.loads(study.here("check", str(study.study), "--json").stdout)
    study.sweeper("run", str(study.study))

    planned = {each["arm"]: each["planned"] for each in check["exposures"]}
    trials = sweeper.trials(study.study).set_index("arm")
    assert trials["records_per_update"].to_dict() == {"baseline": 4.0, "double": 8.0}
    assert trials["target_tokens_read"].to_dict() == {"baseline": 300, "double": 300}
    assert trials["records"].nunique() == trials["record_digest"].nunique() == 1
    assert trials["windows"].to_dict() == {arm: planned[arm]["windows"] for arm in planned}
    assert trials.loc["baseline", "updates"] >= 2 * trials.loc["double", "updates"] - 1
    (double,) = sweeper.compare(study.study).arms
    assert double.breaks == ()
    assert (
        f"The number of updates differs: double made {planned['double']['windows']} where "
        f"baseline made {planned['baseline']['windows']}, from the same target tokens."
    ) in double.notes
    reading = sweeper.exposure(study.study).set_index("arm")
    assert reading["windows_planned"].to_dict() == trials["windows"].to_dict()
    marks = sweeper.evaluations(study.study).groupby("arm")["grid_index"].unique()
    assert list(marks["baseline"]) == list(marks["double"])
