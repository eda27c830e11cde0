"""A study that goes by the lowest validation loss: numbers, weights, and Optuna's values."""

import json

import optuna
import pytest

import sweeper

pytestmark = pytest.mark.slow

SETTINGS = {
    "seeds": "[0]",
    "every": 200,
    "slots": "[cpu]",
    "rate": "2e-2",
    "tune": "selection: {checkpoint: best_validation}\ntune: lora\nlora: {rank: 4, alpha: 8}",
}
LAST = 3
"""Index of the last evaluation: 600 target tokens in steps of 200."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model, set_up):
    """A study whose validation split asks for letters that training makes ever less likely."""
    laboratory = set_up(tmp_path_factory.mktemp("best"), tiny_model, own_data=True, **SETTINGS)
    records = [{"prompt": f"Say {number}.", "answer": "XQZ" * 4} for number in range(8)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (laboratory.folder / "validation.jsonl").write_text(lines, encoding="utf-8")
    laboratory.sweeper("run", str(laboratory.study))
    return laboratory


@pytest.fixture(scope="module")
def lowest(finished):
    """The evaluation of each trial that counts: the lowest validation loss after some update."""
    frame = sweeper.evaluations(finished.study).query("split == 'validation' and grid_index >= 1")
    return frame.loc[frame.groupby("trial")["loss"].idxmin()].set_index("trial")


def test_a_trial_counts_by_its_lowest_validation_loss(finished, lowest):
    trials = sweeper.trials(finished.study).set_index("trial")

    assert trials["validation_loss"].to_dict() == lowest["loss"].to_dict()
    assert (lowest["grid_index"] < LAST).any(), "else the last one would do"


def test_the_retention_loss_is_of_the_same_place(finished, lowest):
    retention = sweeper.evaluations(finished.study).query("split == 'retention'")
    at = retention.set_index(["trial", "grid_index"])["loss"]

    found = sweeper.trials(finished.study).set_index("trial")["retention_loss"]

    assert found.to_dict() == {trial: at[trial, row.grid_index] for trial, row in lowest.iterrows()}


def test_optuna_has_the_same_values(finished, lowest):
    storage = f"sqlite:///{finished.run_folder / 'study.db'}"
    loaded = optuna.load_study(study_name="flow", storage=storage)

    values = {trial.user_attrs["cell"]: trial.value for trial in loaded.get_trials()}

    loaded._storage._backend.engine.dispose()
    assert values == lowest["loss"].to_dict()


def test_both_kinds_of_weights_are_kept_and_differ_where_the_last_is_not_the_best(finished, lowest):
    trials = sweeper.trials(finished.study).set_index("trial")
    earlier = lowest.index[lowest["grid_index"] < LAST][0]

    last, best = (
        (finished.run_folder / trials.loc[earlier, column] / "adapter_model.safetensors")
        for column in ("adapter_path", "best_path")
    )

    assert last.read_bytes() != best.read_bytes()


def test_the_comparison_says_which_loss_it_compares(finished):
    shown = finished.here("compare", str(finished.study)).stdout
    assert "Validation loss where it was lowest, nats per target token" in shown
