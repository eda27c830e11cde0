"""A study of the batch size at the rate that an earlier study of rates has frozen."""

import shutil

import pytest

import sweeper
from sweeper.cli.main import main
from sweeper.data.manifest import Manifest
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.plan import make_plan

pytestmark = pytest.mark.slow

FOLLOW_UP = (
    ("name: flow", "name: second"),
    ("key: training.learning_rate", "key: training.records_per_update"),
    ("kind: rate_too_high", "kind: which"),
    ("  learning_rate: 2e-3\n", ""),
    ("tune: lora\n", "tune: lora\nbaseline: {from: runs/flow}\n"),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory, tiny_model, set_up, earlier_choices):
    """The follow-up study; of the earlier one the choice is frozen as if its trials had run."""
    place = tmp_path_factory.mktemp("follow_up")
    made = set_up(place, tiny_model, seeds="[0]", budget=150, every=75, slots="[cpu]")
    first, earlier = load_study(made.study), StudyFolder(made.run_folder)
    plan = make_plan(first, Manifest.read(earlier.prepared), earlier.prepared)
    earlier_choices.freeze(earlier, plan.protocol, arm="double", name="flow", budget=150)
    # The same records and the same model: what is prepared of them is as good for the second.
    shutil.copytree(earlier.prepared, place / "runs" / "second" / "prepared")
    text = made.study.read_text()
    for old, new in FOLLOW_UP:
        assert old in text
        text = text.replace(old, new)
    made.study = made.folder / "second.yaml"
    made.study.write_text(text)
    return made


def test_a_follow_up_study_runs_at_the_chosen_rate_and_needs_the_earlier_folder_no_more(
    study, capsys
):
    study.sweeper("run", "second.yaml")
    shutil.rmtree(study.run_folder)
    with pytest.raises(SystemExit) as end:
        main(["run", str(study.study)])

    assert end.value.code == 0
    assert "nothing was run" in capsys.readouterr().out
    trials = sweeper.trials(study.study).set_index("arm")
    assert set(trials["outcome"]) == {"completed"}
    assert trials.loc["baseline", "updates"] > trials.loc["double", "updates"]
    updates = sweeper.updates(study.study)
    # With warm-up over the first of the windows, the peak is the second window's and the last's.
    assert updates["learning_rate"].max() == pytest.approx(0.004)
