"""A study of the precision on a real model: the same start and records, other arithmetic."""

import optuna
import pytest

import sweeper
from sweeper.report.comparison import evidence
from sweeper.report.recorded import reading, recorded_settings, run_folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory, tiny_model, set_up):
    """float32 against bfloat16, one seed; nothing else differs."""
    made = set_up(
        tmp_path_factory.mktemp("precisions"),
        tiny_model,
        arms="{baseline: 1}",
        seeds="[0]",
        budget=300,
        every=150,
        slots="[cpu]",
    )
    text = made.study.read_text()
    for old, new in (
        ("training.learning_rate, multiply: {baseline: 1}", "training.precision, ARMS"),
        ("ARMS", "values: {baseline: float32, bf16: bfloat16}"),
        ("kind: rate_too_high", "kind: which"),
        (f"model: {{path: {tiny_model}}}", f"model: {{path: {tiny_model}, dtype: float32}}"),
        ("records_per_update: 4", "records_per_update: 4\n  precision: float32"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    made.study.write_text(text)
    return made


def test_arms_of_other_precisions_differ_in_their_arithmetic_alone(study):
    study.sweeper("run", str(study.study))

    trials = sweeper.trials(study.study).set_index("arm")
    assert trials["precision"].to_dict() == {"baseline": "float32", "bf16": "bfloat16"}
    assert trials["initial_digest"].nunique() == trials["record_digest"].nunique() == 1
    assert trials["target_tokens_applied"].to_dict() == {"baseline": 300, "bf16": 300}
    assert trials["validation_loss"].nunique() == trials["initial_loss"].nunique() == 2

    folder = run_folder(study.study)
    with reading(study.study) as store:
        found = evidence(store, recorded_settings(folder))
    baseline, bf16 = found.cells
    differing = {k for k, v in baseline.environment.items() if bf16.environment[k] != v}
    assert differing == {"precision"}
    assert {cell.evaluation_sets["validation"].dtype for cell in found.cells} == {
        "float32",
        "bfloat16",
    }
    (arm,) = sweeper.compare(study.study).arms
    assert arm.breaks == ()
    assert any("bf16 is evaluated in bfloat16 and baseline in float32" in n for n in arm.notes)
    database = f"sqlite:///{study.run_folder / 'study.db'}"
    parameters = [
        (trial.user_attrs["cell"], trial.params)
        for trial in optuna.load_study(study_name="flow", storage=database).trials
    ]
    assert parameters == [
        ("baseline/0", {"precision": "float32"}),
        ("bf16/0", {"precision": "bfloat16"}),
    ]
