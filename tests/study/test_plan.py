"""From a study and its data to cells, and from a cell to what its attempt is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.errors import PlanError
from sweeper.selection.evidence import Arm
from sweeper.study.plan import Cell, make_plan, make_spec, with_added
from sweeper.study.spec import TrialSpec


@pytest.fixture
def plan(load, manifest, prepared):
    return lambda *changes: make_plan(load(*changes), manifest, prepared)


def test_cells_go_seed_by_seed_with_the_baseline_first(plan) -> None:
    assert [cell.id for cell in plan().cells] == [
        "baseline/0",
        "half/0",
        "double/0",
        "baseline/1",
        "half/1",
        "double/1",
    ]


NOISE_FLOOR = ("tune: lora", "tune: lora\nselection: {noise_floor: true}")


def test_the_repeat_of_the_first_seed_s_baseline_comes_right_after_it(plan) -> None:
    made = plan(NOISE_FLOOR)

    assert [cell.id for cell in made.cells] == [
        "baseline/0",
        "baseline/0~repeat",
        "half/0",
        "double/0",
        "baseline/1",
        "half/1",
        "double/1",
    ]
    assert [arm.name for arm in made.arms] == ["baseline", "half", "double"]


def test_an_added_arm_comes_after_all_others_with_the_same_seeds(plan, load) -> None:
    made = plan()
    study = load().study

    grown = with_added(made, study, [Arm(name="x4", value=1.0, round=1)])

    assert grown.cells[:6] == made.cells
    assert grown.cells[6:] == tuple(
        Cell(id=f"x4/{seed}", arm="x4", seed=seed, value=1.0, round=1) for seed in (0, 1)
    )
    assert (grown.arms[3].name, grown.arms[3].learning_rate_peak, grown.arms[3].round) == (
        "x4", 1.0, 1,
    )  # fmt: skip
    assert (grown.fingerprint, grown.exposures) == (made.fingerprint, made.exposures)
    assert with_added(grown, study, [Arm(name="x4", value=1.0, round=1)]) == grown


def test_what_an_added_arm_is_told_differs_from_the_baseline_s_in_the_rate(
    load, manifest, prepared, plan
) -> None:
    study_file = load()
    grown = with_added(plan(), study_file.study, [Arm(name="x4", value=1.0, round=1)])

    added, baseline = (
        make_spec(study_file, grown, cell, attempt=1, prepared=prepared, threads=1)
        for cell in (grown.cells[-1], grown.cells[3])
    )

    assert (added.cell, baseline.cell) == ("x4/1", "baseline/1")
    assert added.planned == baseline.planned
    settings = baseline.settings()
    assert {key for key, value in added.settings().items() if settings[key] != value} == {
        "training.learning_rate"
    }


def test_the_first_declared_seed_is_repeated_and_not_the_lowest(plan) -> None:
    cells = plan(NOISE_FLOOR, ("seeds: [0, 1]", "seeds: [7, 3]")).cells

    assert cells[1] == Cell(
        id="baseline/7~repeat", arm="baseline~repeat", seed=7, value=0.25, repeats="baseline/7"
    )


def test_the_repeat_is_told_what_the_baseline_is_told_but_for_its_name(load, plan) -> None:
    made = plan(NOISE_FLOOR)
    first, repeat = (
        make_spec(load(NOISE_FLOOR), made, cell, attempt=1, prepared=Path("/a"), threads=1)
        for cell in made.cells[:2]
    )

    assert (repeat.cell, repeat.arm, repeat.seed) == ("baseline/0~repeat", "baseline", 0)
    assert repeat.model_copy(update={"cell": "baseline/0"}) == first
    assert repeat.settings() == first.settings()


def test_a_cell_carries_its_rate(plan) -> None:
    values = {cell.arm: cell.value for cell in plan().cells}

    assert values == {"baseline": 0.25, "half": 0.125, "double": 0.5}


def test_every_seed_has_its_exposure(plan) -> None:
    exposures = plan().exposures

    assert list(exposures) == [0, 1]
    assert [exposure.planned.target_tokens for exposure in exposures.values()] == [17, 17]


def test_epochs_become_the_tokens_of_the_training_split(plan) -> None:
    changes = (
        ("{target_tokens: 17}", "{epochs: 2}"),
        ("max_length: 512", "max_length: 512\n  max_epochs: 2"),
    )

    assert plan(*changes).budget_target_tokens == 40


def test_a_budget_beyond_the_epochs_allowed_is_refused(plan) -> None:
    with pytest.raises(PlanError, match="the budget needs 2 epochs of the training split"):
        plan(("target_tokens: 17", "target_tokens: 21"))


def test_a_local_model_gets_its_absolute_path(plan, tmp_path) -> None:
    (tmp_path / "models" / "tiny").mkdir(parents=True)

    assert plan().model.path == str((tmp_path / "models" / "tiny").resolve())


def test_a_hub_model_gets_the_commit_that_was_resolved(load, manifest, prepared) -> None:
    resolved = manifest.model_copy(update={"model_commit": "c0ffee"})

    model = make_plan(load(("models/tiny", "org/tiny")), resolved, prepared).model

    assert (model.path, model.revision) == ("org/tiny", "c0ffee")


def test_a_spec_tells_the_arms_rate_and_survives_json(load, plan, prepared, tmp_path) -> None:
    study_file, made = load(), plan()

    spec = make_spec(
        study_file,
        made,
        made.cells[5],
        attempt=2,
        prepared=prepared,
        threads=1,
        fencing_number=7,
    )

    assert (spec.cell, spec.arm, spec.seed, spec.attempt) == ("double/1", "double", 1, 2)
    assert spec.training.learning_rate == 0.5
    assert spec.planned == made.exposures[1].planned
    assert spec.fingerprint == made.fingerprint
    assert spec.lora is not None
    assert spec.lora.rank == 16
    assert (spec.micro_batch, spec.threads, spec.fencing_number) == (2, 1, 7)
    assert spec.deterministic
    file = tmp_path / "spec.json"
    file.write_text(spec.to_json())
    assert TrialSpec.read(file) == spec


def test_a_spec_names_no_file_that_records_came_from(load, plan, prepared) -> None:
    made = plan()

    spec = make_spec(load(), made, made.cells[0], attempt=1, prepared=prepared, threads=1)

    assert spec.prepared == str(prepared.resolve())
    assert ".jsonl" not in spec.to_json()


def test_a_packed_study_tells_its_trials_how_long_a_row_is(load, plan, prepared) -> None:
    packing = ("max_length: 512", "max_length: 512\n  packing: {row_tokens: 600}")
    made = plan(packing)

    spec = make_spec(load(packing), made, made.cells[0], attempt=1, prepared=prepared, threads=1)

    assert spec.settings()["packing.row_tokens"] == "600"
    plain = make_spec(load(), plan(), made.cells[0], attempt=1, prepared=prepared, threads=1)
    assert plain.settings()["packing"] == "null"


def test_full_tuning_has_no_adapter(load, manifest, prepared) -> None:
    study_file = load(("tune: lora", "tune: full"))
    made = make_plan(study_file, manifest, prepared)

    spec = make_spec(study_file, made, made.cells[0], attempt=1, prepared=Path("/p"), threads=1)

    assert (spec.tune, spec.lora) == ("full", None)


def test_settings_say_what_is_done_and_not_where_or_by_which_attempt(load, plan) -> None:
    made = plan()
    specs = [
        make_spec(load(), made, made.cells[0], attempt=1, prepared=Path("/a"), threads=1),
        make_spec(load(), made, made.cells[0], attempt=2, prepared=Path("/b"), threads=1),
    ]
    moved = specs[1].model_copy(
        update={"model": specs[1].model.model_copy(update={"path": "/elsewhere"})}
    )

    assert specs[0].settings() == moved.settings()
    assert specs[0].settings()["training.learning_rate"] == "0.25"
    assert specs[0].settings()["fingerprint"] == f'"{made.fingerprint}"'


def test_settings_of_two_arms_differ_in_the_compared_key_alone(load, plan) -> None:
    made = plan()
    baseline, half = (
        make_spec(load(), made, cell, attempt=1, prepared=Path("/a"), threads=1).settings()
        for cell in made.cells[:2]
    )

    assert {key for key in baseline if baseline[key] != half[key]} == {"training.learning_rate"}


def test_an_attempt_is_told_how_much_of_its_gpu_it_may_hold_which_is_no_setting(plan, load) -> None:
    limited = ("micro_batch: 2", "micro_batch: 2, limits: {device_memory: 2KiB}")
    made = plan()
    specs = [
        make_spec(study, made, made.cells[0], attempt=1, prepared=Path("/a"), threads=1)
        for study in (load(), load(limited))
    ]

    assert [spec.device_memory_bytes for spec in specs] == [None, 2048]
    assert specs[0].settings() == specs[1].settings()


BATCHES = (
    ("key: training.learning_rate", "key: training.records_per_update"),
    ("kind: rate_too_high", "kind: which"),
)


def test_arms_of_a_batch_size_study_have_windows_of_their_own(
    plan, load, manifest, prepared
) -> None:
    study_file = load(*BATCHES)
    made = make_plan(study_file, manifest, prepared)

    assert [(arm.name, arm.value, arm.records_per_update) for arm in made.arms] == [
        ("baseline", 4.0, 4), ("half", 2.0, 2), ("double", 8.0, 8),
    ]  # fmt: skip
    assert {arm.learning_rate_peak for arm in made.arms} == {0.25}
    assert [(each.arm, each.seed, each.planned.windows) for each in made.all_exposures] == [
        ("baseline", 0, 2), ("half", 0, 5), ("double", 0, 1),
        ("baseline", 1, 2), ("half", 1, 5), ("double", 1, 1),
    ]  # fmt: skip
    assert plan().own_exposures == {}


def test_a_trial_of_a_batch_size_study_is_told_its_arm_s_windows(load, manifest, prepared) -> None:
    study_file = load(*BATCHES)
    made = make_plan(study_file, manifest, prepared)

    baseline, _, double = (
        make_spec(study_file, made, cell, attempt=1, prepared=prepared, threads=1)
        for cell in made.cells[:3]
    )

    told = baseline.settings()
    assert {key for key, value in double.settings().items() if told[key] != value} == {
        "training.records_per_update",
        "planned.windows",
        "planned.last_window_target_tokens",
    }
    assert (double.training.records_per_update, double.planned.windows) == (8, 1)


PRECISIONS = (
    ("key: training.learning_rate", "key: training.precision"),
    ("kind: rate_too_high", "kind: which"),
    ("multiply: {half: 0.5, baseline: 1, double: 2}", "values: {baseline: float32, fp16: float16}"),
    ("{path: models/tiny}", "{path: models/tiny, dtype: float32}"),
    ("records_per_update: 4", "records_per_update: 4\n  precision: float32"),
)


def test_a_trial_of_a_precision_study_is_told_its_arm_s_precision_and_nothing_else(
    load, manifest, prepared
) -> None:
    study_file = load(*PRECISIONS)
    made = make_plan(study_file, manifest, prepared)

    baseline, fp16 = (
        make_spec(study_file, made, cell, attempt=1, prepared=prepared, threads=1)
        for cell in made.cells[:2]
    )

    told = baseline.settings()
    differing = {key: value for key, value in fp16.settings().items() if told[key] != value}
    assert differing == {"training.precision": '"float16"'}
    assert [(cell.id, cell.value) for cell in made.cells[:2]] == [
        ("baseline/0", "float32"), ("fp16/0", "float16"),
    ]  # fmt: skip
    assert made.own_exposures == {}


def test_an_arm_of_a_precision_study_has_to_find_its_seed_s_place_and_its_own_precision(
    load, manifest, prepared
) -> None:
    study_file = load(*PRECISIONS)
    made = make_plan(study_file, manifest, prepared)
    began = {"device": "H200", "dtype": "float32", "precision": "float32", "loss_scaling": "no"}

    found = [
        make_spec(
            study_file,
            made,
            cell,
            attempt=1,
            prepared=prepared,
            threads=1,
            seed_environment=began,
        ).seed_environment
        for cell in made.cells[:2]
    ]

    assert found == [began, began | {"precision": "float16", "loss_scaling": "yes"}]


def test_an_arm_of_a_rate_study_has_to_find_what_its_seed_began_with(load, plan) -> None:
    made = plan()
    began = {"device": "H200", "precision": "bfloat16"}

    spec = make_spec(
        load(),
        made,
        made.cells[1],
        attempt=1,
        prepared=Path("/a"),
        threads=1,
        seed_environment=began,
    )

    assert spec.seed_environment == began
