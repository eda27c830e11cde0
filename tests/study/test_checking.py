"""The report of `sweeper check`, as data."""

from __future__ import annotations

import pytest

from sweeper.study.checking import describe
from sweeper.study.plan import make_plan


@pytest.fixture
def report(load, manifest, prepared):
    def make(*changes):
        study_file = load(*changes)
        return describe(study_file, make_plan(study_file, manifest, prepared), manifest)

    return make


@pytest.mark.parametrize(
    ("key", "value", "given"),
    [
        ("training.learning_rate", 0.25, True),
        ("training.optimizer.weight_decay", 0.0, False),
        ("lora.rank", 16, False),
        ("lora.alpha", 32.0, False),
        ("compare.multiply.half", 0.5, True),
        ("model.dtype", "auto (decided on the slot)", False),
        ("model.attention", "auto (decided on the slot)", False),
        ("training.precision", "auto (decided on the slot)", False),
        ("run.slots", "auto (decided on the slot)", False),
        ("data.format", "auto", False),
        ("run.micro_batch", 2, True),
        ("evaluation.every", None, False),
        ("seeds", [0, 1], True),
    ],
)
def test_every_resolved_value_is_echoed_with_where_it_came_from(report, key, value, given) -> None:
    found = [(entry.value, entry.given) for entry in report().settings if entry.key == key]

    assert found == [(value, given)]


def test_the_adapter_of_full_tuning_is_null(report) -> None:
    settings = report(("tune: lora", "tune: full")).settings

    assert [entry.value for entry in settings if entry.key.startswith("lora")] == [None]


def test_the_plan_is_in_the_report(report, load, manifest, prepared) -> None:
    plan = make_plan(load(), manifest, prepared)
    told = report()

    assert (told.fingerprint, told.cells, told.arms) == (plan.fingerprint, plan.cells, plan.arms)
    assert told.warnings == plan.warnings
    assert [exposure.seed for exposure in told.exposures] == [0, 1]
    assert (told.budget_target_tokens, told.epoch_target_tokens) == (17, 20)
    assert (told.resolution.seeds, told.resolution.comparisons) == (2, 2)
    assert told.factor == "training.learning_rate"
    assert told.question == "Is the rate too high?"


def test_packing_is_told_with_the_rule_that_makes_the_rows(report) -> None:
    packed = report(("max_length: 512", "max_length: 512\n  packing: {row_tokens: 512}"))

    assert "a row is closed when the next record does not fit" in packed.rounding_rule
    assert packed.rounding_rule.startswith(report().rounding_rule)
    assert [exposure.planned.rows for exposure in packed.exposures] == [1, 1]
    assert "row" not in report().rounding_rule


def test_splits_are_told_and_the_test_split_by_its_digest_only(report) -> None:
    splits = {split.name: split for split in report().splits}

    assert list(splits) == ["train", "validation", "test"]
    assert (splits["train"].records, splits["train"].target_tokens) == (10, 20)
    assert (splits["test"].records, splits["test"].digest) == (4, "sealed")
    assert splits["test"].target_tokens is None


def test_notices_and_keys_without_effect_are_passed_on(report) -> None:
    told = report(("micro_batch: 2", "micro_batch: 2, trackers: []"))

    assert told.notices == ("The columns were read as prompt and answer.",)
    assert [key.key for key in told.not_yet_in_effect] == ["run.trackers"]


def test_the_repeat_is_among_the_cells_and_told_what_it_is_for(report) -> None:
    told = report(("tune: lora", "tune: lora\nselection: {noise_floor: true}"))

    assert [cell.id for cell in told.cells][:3] == ["baseline/0", "baseline/0~repeat", "half/0"]
    assert told.noise_floor == (
        "baseline/0~repeat runs baseline/0 once more, in another slot where there is one. It "
        "belongs to no arm: what the two differ by is the noise floor, and no smaller difference "
        "is claimed."
    )
    assert told.resolution.comparisons == 2
    assert told.not_yet_in_effect == ()


def test_without_a_repeat_nothing_is_said_of_noise(report) -> None:
    assert report().noise_floor is None


def test_what_may_be_added_is_told_with_the_most_it_may_cost(report) -> None:
    """Two further arms, three seeds each, 17 target tokens a trial: 102."""
    extended = ("seeds: [0, 1]", "seeds: [0, 1, 2]\nselection: {extensions: 2}")

    assert report(extended).extensions == (
        "When every cell has ended and the best rate is at the edge of those compared, `run` adds "
        "a rate twice or half as high, for the same seeds: 2 further arms, one after another, at "
        "the most, which is 6 trials of 17 target tokens, 102 in all. Each arm is one more "
        "comparison, which the p values of all are corrected for."
    )


def test_with_two_seeds_no_arm_will_be_added(report) -> None:
    extended = ("tune: lora", "tune: lora\nselection: {extensions: 1}")

    assert report(extended).extensions == (
        "No arm will be added: with fewer than 3 seeds nothing says which rate is best."
    )


def test_a_study_without_extensions_says_nothing_of_them(report) -> None:
    assert report().extensions is None
