"""Attempts carried out in this process: what each leaves in its folder."""

from __future__ import annotations

import pytest

from sweeper.errors import RunFolderError
from sweeper.records import (
    Artifact,
    Evaluation,
    Phase,
    PhaseBegun,
    Reason,
    Started,
    Update,
    decode,
)
from sweeper.training.options import (
    EvaluationOptions,
    ModelOptions,
    ScheduleOptions,
    TrainingOptions,
    Warmup,
)
from sweeper.trial.exit_status import ExitStatus
from sweeper.trial.main import run

pytestmark = pytest.mark.usefixtures("restored_torch")


@pytest.fixture
def carry_out(attempt):
    """Runs a spec in a new folder; returns its exit status and its records."""

    def to_the_end(spec, *, interrupted=lambda: False):
        folder = attempt(spec)
        status = run(folder, interrupted=interrupted)
        lines = folder.events.read_text("utf-8").splitlines()
        return status, [decode(line).record for line in lines], folder

    return to_the_end


def of_kind(kind, records):
    return [record for record in records if isinstance(record, kind)]


def test_a_completed_attempt_reads_the_budget_and_saves_its_adapter(bench, carry_out):
    spec = bench.spec(budget=200)

    status, records, folder = carry_out(spec)

    updates = of_kind(Update, records)
    assert status is ExitStatus.ORDERLY
    assert records[-1].reason is Reason.BUDGET_REACHED
    assert updates[-1].target_tokens_read == 200
    assert updates[-1].record_digest == spec.planned.record_digest
    assert [update.window for update in updates] == list(range(1, spec.planned.windows + 1))
    assert of_kind(Artifact, records)[0].path == "adapter"
    assert (folder.adapter / "adapter_model.safetensors").is_file()
    assert (folder.adapter / "tokenizer.json").is_file()


def test_the_history_tells_the_phases_and_the_start_in_order(bench, carry_out):
    _, records, _ = carry_out(bench.spec(budget=60))

    phases = [record.phase for record in of_kind(PhaseBegun, records)]
    assert phases == [
        Phase.LOADING,
        Phase.EVALUATING,
        Phase.TRAINING,
        Phase.EVALUATING,
        Phase.TRAINING,
        Phase.SAVING,
        Phase.ENDING,
    ]
    started = records[1]
    assert isinstance(started, Started)
    assert started.trainable_parameters == 2 * sum(2 * (m + n) for m, n in LINEAR_SHAPES)
    assert started.environment["threads"] == "1"
    assert started.configuration["training.learning_rate"] == "0.01"
    assert started.configuration["training.precision"] == '"float32"'


LINEAR_SHAPES = [(16, 16)] * 4 + [(16, 32)] * 3
"""Inputs and outputs of a layer's seven linear maps: each gets rank 2 of both. Two layers."""


def test_validation_comes_first_and_the_set_is_cut_to_max_records(bench, carry_out):
    spec = bench.spec(budget=60, evaluation=EvaluationOptions(max_records=7))

    _, records, _ = carry_out(spec)

    scored = [(e.split, e.index, e.records) for e in of_kind(Evaluation, records)]
    assert scored == [
        ("validation", 0, 7),
        ("retention", 0, 5),
        ("validation", 1, 7),
        ("retention", 1, 5),
    ]


def test_an_attempt_asked_to_end_is_preempted_and_saves_nothing(bench, carry_out):
    status, records, folder = carry_out(bench.spec(), interrupted=lambda: True)

    assert status is ExitStatus.ORDERLY
    assert records[-1].reason is Reason.PREEMPTED
    assert not folder.adapter.exists()


def test_a_schedule_over_target_tokens_goes_by_those_applied(bench, carry_out):
    """Warm-up of 50 of 200: c / 50, then (200 + n - c) / (200 + n - 50), n those of the last."""
    by_tokens = ScheduleOptions(
        kind="linear", counter="target_tokens", warmup=Warmup(target_tokens=50)
    )
    training = TrainingOptions(learning_rate=0.01, schedule=by_tokens, records_per_update=4)
    spec = bench.spec(budget=200, training=training)

    _, records, _ = carry_out(spec)

    updates = of_kind(Update, records)
    applied = [update.target_tokens_applied for update in updates]
    end = 200 + spec.planned.last_window_target_tokens
    assert [update.learning_rate for update in updates] == pytest.approx(
        [0.01 * min(c / 50, (end - c) / (end - 50)) for c in applied], rel=1e-12
    )
    assert applied[-1] == 200


def test_data_that_do_not_give_the_plan_are_a_budget_mismatch(bench, carry_out):
    spec = bench.spec(budget=200)
    planned = spec.planned.model_copy(update={"input_tokens": 1})

    status, records, _ = carry_out(spec.model_copy(update={"planned": planned}))

    found = spec.planned.input_tokens
    assert status is ExitStatus.TROUBLE
    assert records[-1].reason is Reason.BUDGET_MISMATCH
    assert records[-1].detail.endswith(f"input_tokens is {found}, planned 1")


def test_a_model_that_is_not_there_is_a_code_error_with_its_traceback(bench, carry_out):
    status, records, _ = carry_out(bench.spec(model=ModelOptions(path="/nowhere/model")))

    outcome = records[-1]
    assert status is ExitStatus.TROUBLE
    assert outcome.reason is Reason.CODE_ERROR
    assert "/nowhere/model" in outcome.detail
    assert outcome.evidence["traceback"].startswith("Traceback")


def test_a_trial_that_a_condition_stopped_ends_orderly_and_saves_nothing(bench, carry_out):
    """The whole model, at a rate a thousand times too high."""
    training = TrainingOptions(
        learning_rate=1.0, schedule=ScheduleOptions(kind="constant"), records_per_update=4
    )

    status, records, folder = carry_out(
        bench.spec(budget=1500, training=training, tune="full", lora=None)
    )

    assert status is ExitStatus.ORDERLY
    assert records[-1].reason is Reason.DIVERGED
    assert not folder.adapter.exists()


def test_a_folder_takes_one_attempt_only(bench, attempt):
    folder = attempt(bench.spec(budget=60))
    folder.events.write_text('{"sequence": 1}\n', encoding="utf-8")

    with pytest.raises(RunFolderError, match="this attempt has run before"):
        run(folder, interrupted=lambda: False)

    assert folder.events.read_text("utf-8") == '{"sequence": 1}\n'


def test_an_attempt_where_its_seed_began_runs(bench, carry_out):
    _, records, _ = carry_out(bench.spec(budget=60))
    (first,) = of_kind(Started, records)

    again = bench.spec(budget=60).model_copy(update={"seed_environment": dict(first.environment)})
    _, records, _ = carry_out(again)

    assert records[-1].reason is Reason.BUDGET_REACHED
    (second,) = of_kind(Started, records)
    assert second.configuration == first.configuration, "it is no setting of the trial"


@pytest.mark.parametrize(
    ("field", "value"), [("device", "NVIDIA A100"), ("attention", "eager"), ("cuda", "12.8")]
)
def test_an_attempt_elsewhere_ends_before_it_has_started(bench, carry_out, field, value):
    _, records, _ = carry_out(bench.spec(budget=60))
    (first,) = of_kind(Started, records)
    environment = {**first.environment, field: value}

    elsewhere = bench.spec(budget=60).model_copy(update={"seed_environment": environment})
    status, records, _ = carry_out(elsewhere)

    assert status is ExitStatus.ORDERLY
    assert records[-1].reason is Reason.PREEMPTED
    found = first.environment.get(field, "not set")
    assert records[-1].detail.endswith(f"goes on elsewhere: {field} {found} instead of {value}")
    assert of_kind(Started, records) == of_kind(Evaluation, records) == []
