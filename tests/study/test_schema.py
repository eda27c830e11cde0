"""The study as one value."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.loading import load_study


def test_lora_without_its_section_has_the_defaults(load) -> None:
    adapter = load().study.adapter

    assert adapter is not None
    assert (adapter.rank, adapter.alpha, adapter.dropout) == (16, 32, 0.0)
    assert adapter.targets == "all-linear"


def test_full_tuning_has_no_adapter(load) -> None:
    assert load(("tune: lora", "tune: full")).study.adapter is None


def test_lists_of_target_modules_are_read(load) -> None:
    study = load(("tune: lora", "tune: lora\nlora: {targets: [q_proj, v_proj]}")).study

    assert study.adapter is not None
    assert study.adapter.targets == ("q_proj", "v_proj")


def test_values_of_arms_come_baseline_first_and_then_as_written(load) -> None:
    """The baseline's own rate is 0.25."""
    study = load(("half: 0.5, baseline: 1, double: 2", "quarter: 0.25, half: 0.5, baseline: 1"))

    assert list(study.study.arm_values.items()) == [
        ("baseline", 0.25),
        ("quarter", 0.0625),
        ("half", 0.125),
    ]


def test_a_rate_given_as_1_is_the_rate_given_as_a_number_with_a_point(load) -> None:
    multiply = "multiply: {half: 0.5, baseline: 1, double: 2}"
    one, point = (
        load(
            (multiply, f"values: {{baseline: {rate}, half: 0.5}}"),
            ("learning_rate: 0.25", "learning_rate: 1"),
        ).study
        for rate in ("1", "1.0")
    )

    assert one.compare.model_dump_json() == point.compare.model_dump_json()
    assert list(one.arm_values.items()) == [("baseline", 1.0), ("half", 0.5)]


@pytest.mark.parametrize("name", ["a", "7b", "lora-rate", "v1.2_x", "a" * 100])
def test_a_name_that_can_be_a_folder_is_accepted(load, name) -> None:
    assert load(("name: small", f"name: '{name}'")).study.name == name


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "-x", "a b", "a" * 101, "a\\nb"])
def test_a_name_that_can_not_is_refused(write_study, name) -> None:
    file = write_study(("name: small", f'name: "{name}"'))

    with pytest.raises(StudyFileError, match=r"^study\.yaml:1: name: not what belongs here"):
        load_study(file)
