"""Warnings of a study that would not compare what it means to."""

from __future__ import annotations

import pytest

from sweeper.study.plan import make_plan

EVALUATED = ("tune: lora", "tune: lora\nevaluation: {every: {target_tokens: 5}}")


@pytest.fixture
def warnings(load, manifest, prepared):
    return lambda *changes: make_plan(load(EVALUATED, *changes), manifest, prepared).warnings


def test_a_plain_study_has_no_warning(warnings) -> None:
    assert warnings() == ()


@pytest.mark.parametrize(
    ("warmup", "told"),
    [
        (
            2,
            (
                "Warm-up does not end within the budget: it takes 2 updates of 2 (seeds: 0, 1). The"
                " peak rate is reached only with the last update, so the arms differ by less than"
                " their names say."
            ),
        ),
        (
            3,
            (
                "Warm-up does not end within the budget: it takes 3 updates of 2 (seeds: 0, 1). The"
                " peak rate is never reached, so the arms differ by less than their names say."
            ),
        ),
    ],
)
def test_a_warm_up_as_long_as_the_run_is_warned_of(warnings, warmup, told) -> None:
    change = ("{kind: cosine}", f"{{kind: cosine, warmup: {{updates: {warmup}}}}}")

    assert warnings(change) == (told,)


def test_a_warm_up_that_ends_one_update_before_is_not_warned_of(warnings) -> None:
    assert warnings(("{kind: cosine}", "{kind: cosine, warmup: {updates: 1}}")) == ()


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_decay_that_changes_with_the_rate_is_warned_of(warnings, kind) -> None:
    optimizer = f"records_per_update: 4\n  optimizer: {{kind: {kind}, weight_decay: 0.01}}"

    assert warnings(("records_per_update: 4", optimizer)) == (
        (
            "lr x weight_decay differs between the arms (baseline 0.0025, half"
            " 0.00125, double 0.005):"
            " they change the decay along with the rate. `training.optimizer.weight_decay: 0` would"
            " leave the rate alone."
        ),
    )


def test_a_divergence_rule_that_can_never_fire_is_warned_of(load, manifest, prepared) -> None:
    """Without a grid the one evaluation after the first update is the last."""
    assert make_plan(load(), manifest, prepared).warnings == (
        (
            "stop.diverged cannot fire: it asks for 2 evaluations in a row, and only"
            " 1 are made after"
            " the first update. Set evaluation.every, or lower stop.diverged.evaluations."
        ),
    )


@pytest.mark.parametrize(("micro_batch", "ranks"), [(2, 2), (1, 4), (4, 1)])
def test_as_many_micro_batches_as_ranks_are_not_warned_of(warnings, micro_batch, ranks) -> None:
    """A window holds 4 records."""
    run = f"micro_batch: {micro_batch}, devices_per_trial: {ranks}"

    assert warnings(("micro_batch: 2", run)) == ()


def test_ranks_that_never_have_a_micro_batch_are_warned_of(warnings) -> None:
    assert warnings(("micro_batch: 2", "micro_batch: 3, devices_per_trial: 4")) == (
        (
            "run.devices_per_trial: 4 is more than the 2 micro-batches of a window (4 records, 3 at"
            " a time): the other 2 devices of each trial have nothing to do."
        ),
    )


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        (
            "[cpu]",
            (
                (
                    "float16 is for GPUs, and run.slots has `cpu`: there the trials of fp16 are"
                    " refused and end as failed."
                ),
            ),
        ),
        ("auto", ()),
        ('["0"]', ()),
    ],
)
def test_an_arm_in_float16_on_a_processor_is_warned_of(warnings, slots, told) -> None:
    found = warnings(
        ("key: training.learning_rate", "key: training.precision"),
        ("kind: rate_too_high", "kind: which"),
        (
            "multiply: {half: 0.5, baseline: 1, double: 2}",
            "values: {baseline: float32, fp16: float16}",
        ),
        ("{path: models/tiny}", "{path: models/tiny, dtype: float32}"),
        ("records_per_update: 4", "records_per_update: 4\n  precision: float32"),
        ("micro_batch: 2", f"micro_batch: 2, slots: {slots}"),
    )

    assert found == told
