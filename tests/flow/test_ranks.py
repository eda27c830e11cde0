"""A whole study whose trials have two ranks each, on the cores."""

import json

import pytest

import sweeper

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model, set_up):
    """Two cells, one after the other."""
    laboratory = set_up(
        tmp_path_factory.mktemp("ranks"), tiny_model, seeds="[0]", slots="[cpu]", budget=300
    )
    with laboratory.study.open("a", encoding="utf-8") as file:
        file.write("  devices_per_trial: 2\n")
    laboratory.sweeper("run", str(laboratory.study))
    return laboratory


def test_every_trial_completes_and_reads_the_budget_to_the_token(finished):
    trials = sweeper.trials(finished.study)

    assert trials["outcome"].tolist() == ["completed", "completed"]
    assert trials["target_tokens_read"].tolist() == [300, 300]


@pytest.mark.parametrize(
    "column", ["initial_digest", "initial_loss", "first_window_loss", "record_digest"]
)
def test_both_arms_share_the(finished, column):
    assert sweeper.trials(finished.study)[column].nunique() == 1


def test_comparing_finds_every_gate_kept(finished):
    comparison = finished.rows("compare")

    assert [arm["breaks"] for arm in comparison["arms"]] == [[]]


def test_check_tells_the_ranks_and_the_trials_report_them(finished):
    checked = finished.here("check", str(finished.study), "--json").stdout

    (setting,) = [
        each for each in json.loads(checked)["settings"] if each["key"] == "run.devices_per_trial"
    ]
    assert (setting["value"], setting["given"]) == (2, True)
    told = sweeper.attempts(finished.study)["environment"]
    assert [json.loads(environment)["ranks"] for environment in told] == ["2", "2"]


def test_no_process_is_left(finished):
    assert finished.processes() == []
