"""Arms given as values: which values each key takes, and what a precision study asks for."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.arms import plan_arms
from sweeper.study.loading import load_study

ARMS = "multiply: {half: 0.5, baseline: 1, double: 2}"
UPDATE = "records_per_update: 4"
MODEL = "{path: models/tiny}"
WHICH = ("kind: rate_too_high", "kind: which")
BATCHES = (("key: training.learning_rate", "key: training.records_per_update"), WHICH)
PRECISIONS = (
    ("key: training.learning_rate", "key: training.precision"),
    WHICH,
    (MODEL, "{path: models/tiny, dtype: float32}"),
)


def values(text):
    return (ARMS, f"values: {{{text}}}")


def precision(name):
    return (UPDATE, f"{UPDATE}\n  precision: {name}")


def faults(file):
    with pytest.raises(StudyFileError) as caught:
        load_study(file)
    return str(caught.value).splitlines()


def test_rates_are_given_as_values(load) -> None:
    study = load(values("low: 0.125, baseline: 0.25, odd: 0.3")).study

    assert [(arm.name, arm.value, arm.learning_rate_peak) for arm in plan_arms(study)] == [
        ("baseline", 0.25, 0.25),
        ("low", 0.125, 0.125),
        ("odd", 0.3, 0.3),
    ]


def test_a_whole_number_is_the_rate_with_a_point(load) -> None:
    one = ("learning_rate: 0.25", "learning_rate: 1.0")
    study = load(values("baseline: 1, half: 0.5"), one).study

    assert [(arm.name, repr(arm.value)) for arm in plan_arms(study)] == [
        ("baseline", "1.0"),
        ("half", "0.5"),
    ]


def test_records_are_given_as_values(load) -> None:
    arms = plan_arms(load(*BATCHES, values("baseline: 4, small: 3")).study)

    assert [(arm.name, arm.value, arm.records_per_update, arm.precision) for arm in arms] == [
        ("baseline", 4.0, 4, None),
        ("small", 3.0, 3, None),
    ]
    assert {arm.learning_rate_peak for arm in arms} == {0.25}


def test_precisions_are_given_as_values(load) -> None:
    arms = plan_arms(
        load(
            *PRECISIONS,
            precision("float32"),
            values("bf16: bfloat16, baseline: float32, fp16: float16"),
        ).study
    )

    assert [(arm.name, arm.value, arm.precision) for arm in arms] == [
        ("baseline", "float32", "float32"),
        ("bf16", "bfloat16", "bfloat16"),
        ("fp16", "float16", "float16"),
    ]
    assert {(arm.learning_rate_peak, arm.records_per_update) for arm in arms} == {(0.25, None)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            [values("baseline: 0.25, odd: bfloat16")],
            (
                "study.yaml:6: compare.values.odd: the learning rate of the arm `odd` is no number"
                " (got bfloat16; expected a number above 0 and of at most 1)."
            ),
        ),
        (
            [values("baseline: 0.25, high: 2e4")],
            (
                "study.yaml:6: compare.values.high: the learning rate of the arm `high` is out of"
                " range (got 2e4; expected a number above 0 and of at most 1). Did you mean 2e-4?"
            ),
        ),
        (
            [values("baseline: 0.25, none: 0")],
            (
                "study.yaml:6: compare.values.none: the learning rate of the arm `none` is out of"
                " range (got 0; expected a number above 0 and of at most 1)."
            ),
        ),
        (
            [values("baseline: 0.25, odd: true")],
            (
                "study.yaml:6: compare.values.odd: not what belongs here"
                " (got true; expected a number, or a precision by its name)."
            ),
        ),
        (
            [values("baseline: 0.2, half: 0.125")],
            (
                "study.yaml:6: compare.values.baseline: the baseline is the study as it stands"
                " (got 0.2; expected 0.25, the value of training.learning_rate)."
            ),
        ),
        (
            [values("baseline: 0.25, same: 0.250")],
            (
                "study.yaml:6: compare.values.same: the same value as the arm `baseline`"
                " (got 0.250)."
            ),
        ),
        (
            [*BATCHES, values("baseline: 4, odd: 2.5")],
            (
                "study.yaml:6: compare.values.odd: an update of the arm `odd` would not take whole"
                " records (got 2.5; expected a whole number above 0)."
            ),
        ),
        (
            [*BATCHES, values("baseline: 4, odd: float32")],
            (
                "study.yaml:6: compare.values.odd: an update of the arm `odd` would not take whole"
                " records (got float32; expected a whole number above 0)."
            ),
        ),
        (
            [*BATCHES, values("baseline: 4, none: 0")],
            (
                "study.yaml:6: compare.values.none: an update of the arm `none` would not take"
                " whole records (got 0; expected a whole number above 0)."
            ),
        ),
        (
            [*PRECISIONS, precision("float32"), values("baseline: float32, bf16: bfloat61")],
            (
                "study.yaml:6: compare.values.bf16: not one of the choices (got bfloat61; expected"
                " one of float32, bfloat16, float16). Did you mean bfloat16?"
            ),
        ),
        (
            [*PRECISIONS, precision("float32"), values("baseline: float32, less: 16")],
            (
                "study.yaml:6: compare.values.less: not one of the choices (got 16; expected"
                " one of float32, bfloat16, float16)."
            ),
        ),
        (
            [*PRECISIONS, precision("float32"), values("baseline: float32, free: auto")],
            (
                "study.yaml:6: compare.values.free: what `auto` means is decided on the slot, so"
                " nothing would say what is compared (got auto; expected one of float32, bfloat16,"
                " float16)."
            ),
        ),
        (
            [*PRECISIONS, values("baseline: float32, bf16: bfloat16")],
            (
                "study.yaml:15: training.precision: the precision is what is compared, and `auto`"
                " is decided on the slot (got auto; expected float32)."
            ),
        ),
        (
            [*PRECISIONS, precision("float32")],
            (
                "study.yaml:6: compare.multiply: a precision cannot be multiplied"
                " (expected values: {baseline: float32, bf16: bfloat16})."
            ),
        ),
        (
            [*PRECISIONS[:2], precision("float32"), values("baseline: float32, bf16: bfloat16")],
            (
                "study.yaml:9: model.dtype: on a GPU `auto` holds the base weights of a bfloat16"
                " arm in bfloat16 and those of other arms in float32, and arms differ in one"
                " setting only (got auto; expected float32)."
            ),
        ),
    ],
)
def test_a_value_that_is_none_of_the_key_s_is_told_once(write_study, changes, told) -> None:
    assert faults(write_study(*changes)) == [told]


def test_every_weight_that_is_trained_stays_float32_so_auto_may_stay(load) -> None:
    """Full fine-tuning has no frozen weights that a GPU would hold in bfloat16."""
    study = load(
        *PRECISIONS[:2],
        precision("float32"),
        values("baseline: float32, bf16: bfloat16"),
        ("tune: lora", "tune: full"),
    ).study

    assert study.model.dtype == "auto"


def test_every_fault_of_a_precision_study_is_in_one_message(write_study) -> None:
    file = write_study(
        PRECISIONS[0],
        values("baseline: bfloat16, full: float32, half: float16, Free: auto"),
        (MODEL, "{path: models/tiny, dtype: bfloat16, attention: flash_attention_2}"),
        precision("bfloat16"),
        ("tune: lora", "tune: lora\nselection: {extensions: 1}"),
    )

    assert [line.partition(" (")[0] for line in faults(file)] == [
        (
            "study.yaml:2: question.kind: the question is about the rate, which is not what is"
            " compared"
        ),
        "study.yaml:6: compare.values.Free: not the name of an arm",
        (
            "study.yaml:6: compare.values.Free: what `auto` means is decided on the slot, so"
            " nothing would say what is compared"
        ),
        (
            "study.yaml:6: compare.values.full: the precision of the arm `full` does not go with a"
            " bfloat16 base"
        ),
        (
            "study.yaml:6: compare.values.half: the precision of the arm `half` does not go with a"
            " bfloat16 base"
        ),
        (
            "study.yaml:9: model.attention: flash attention computes in sixteen bits only, and the"
            " arm `full` in float32"
        ),
        "study.yaml:11: selection.extensions: only rates are extended beyond an edge",
    ]


def test_flash_attention_goes_with_arms_of_sixteen_bits(load) -> None:
    study = load(
        *PRECISIONS[:2],
        (MODEL, "{path: models/tiny, dtype: float32, attention: flash_attention_2}"),
        precision("bfloat16"),
        values("baseline: bfloat16, fp16: float16"),
    ).study

    assert [arm.precision for arm in plan_arms(study)] == ["bfloat16", "float16"]
