"""What two keys may not say together."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.arms import plan_arms
from sweeper.study.loading import load_study

ARMS = "multiply: {half: 0.5, baseline: 1, double: 2}"
UPDATE = "records_per_update: 4"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "key: training.learning_rate",
            "key: model.dtype",
            (
                "study.yaml:5: compare.key: this key cannot be compared (got"
                " model.dtype; expected one"
                " of training.learning_rate, training.records_per_update, training.precision)."
            ),
        ),
        (
            f"  {ARMS}\n",
            "",
            (
                "study.yaml:4: compare: give either `multiply` or `values`"
                " (expected multiply: {half: 0.5, baseline: 1, double: 2})."
            ),
        ),
        (
            "half: 0.5",
            "Half: 0.5",
            (
                "study.yaml:6: compare.multiply.Half: not the name of an arm"
                " (got Half; expected small letters, digits and `_`, a letter first)."
            ),
        ),
        (
            "baseline: 1,",
            "base: 1,",
            (
                "study.yaml:6: compare.multiply: no arm is named `baseline`"
                " (got half, base, double). The other arms are compared with it."
            ),
        ),
        (
            ARMS,
            "multiply: {baseline: 1}",
            (
                "study.yaml:6: compare.multiply: only one arm (got baseline)."
                " Add an arm to compare the baseline with."
            ),
        ),
        (
            "baseline: 1,",
            "baseline: 1.5,",
            (
                "study.yaml:6: compare.multiply.baseline: the baseline is the study as it stands"
                " (got 1.5; expected 1)."
            ),
        ),
        (
            "double: 2",
            "double: 0.5",
            "study.yaml:6: compare.multiply.double: the same value as the arm `half` (got 0.5).",
        ),
        (
            "half: 0.5",
            "half: 0",
            "study.yaml:6: compare.multiply.half: out of range (got 0; expected a number above 0).",
        ),
        (
            "half: 0.5",
            "half: -0.5",
            (
                "study.yaml:6: compare.multiply.half: out of range"
                " (got -0.5; expected a number above 0)."
            ),
        ),
        (
            "double: 2",
            "double: 8",
            (
                "study.yaml:6: compare.multiply.double: the learning rate of the arm"
                " `double` is out of"
                " range (got 8 x 0.25 = 2; expected a number above 0 and of at most 1)."
            ),
        ),
        (
            "double: 2",
            "tiny: 1e-324",
            (
                "study.yaml:6: compare.multiply.tiny: out of range"
                " (got 1e-324; expected a number above 0)."
            ),
        ),
        (
            "double: 2",
            "tiny: 5e-324",
            (
                "study.yaml:6: compare.multiply.tiny: the learning rate of the arm `tiny` is out of"
                " range (got 5e-324 x 0.25 = 0; expected a number above 0 and of at most 1)."
            ),
        ),
        (
            "seeds: [0, 1]",
            "seeds: [0, 1, 0]",
            "study.yaml:7: seeds[2]: the same seed twice (got 0).",
        ),
        (
            "seeds: [0, 1]",
            "seeds: []",
            (
                "study.yaml:7: seeds: nothing is given (got a list; expected a list,"
                " each entry a whole"
                " number of at least 0 and below 4294967296)."
            ),
        ),
        (
            "{target_tokens: 17}",
            "{target_tokens: 17, epochs: 1}",
            (
                "study.yaml:8: budget: give either `target_tokens` or `epochs`"
                " (expected {target_tokens: 20000} or {epochs: 1})."
            ),
        ),
        (
            "{target_tokens: 17}",
            "{}",
            (
                "study.yaml:8: budget: give either `target_tokens` or `epochs`"
                " (expected {target_tokens: 20000} or {epochs: 1})."
            ),
        ),
        (
            "{target_tokens: 17}",
            "{epochs: 2}",
            (
                "study.yaml:8: budget.epochs: more epochs than data.max_epochs allows"
                " (got 2; expected at most 1)."
                " Raise data.max_epochs if records may be read that often."
            ),
        ),
        (
            "max_length: 512",
            "max_length: 512\n  packing: {row_tokens: 511}",
            (
                "study.yaml:15: data.packing.row_tokens: a record may be longer than a packed row,"
                " and is never split (got 511; expected at least 512, which is data.max_length)."
                " Raise data.packing.row_tokens, or lower data.max_length."
            ),
        ),
        (
            "tune: lora",
            "tune: full\nlora: {rank: 4}",
            (
                "study.yaml:11: lora: `lora` has no effect with `tune: full`."
                " Leave `lora` out, or write `tune: lora`."
            ),
        ),
        (
            "  learning_rate: 0.25\n",
            "",
            (
                "study.yaml:15: training.learning_rate: a required key is missing"
                " (expected a number above 0 and of at most 1)."
            ),
        ),
        (
            UPDATE,
            f"{UPDATE}\n  precision: float64",
            (
                "study.yaml:19: training.precision: not one of the choices"
                " (got float64; expected one of auto, float32, bfloat16, float16)."
            ),
        ),
        (
            "model: {path: models/tiny}\ntune: lora",
            "model: {path: models/tiny, dtype: bfloat16}\ntune: full",
            (
                "study.yaml:9: model.dtype: full fine-tuning keeps its weights in float32"
                " (got bfloat16; expected float32 or auto with `tune: full`)."
                " `training.precision: bfloat16` computes in bfloat16 over float32 weights."
            ),
        ),
        (
            "model: {path: models/tiny}\ntune: lora",
            "model: {path: models/tiny, quantization: nf4}\ntune: full",
            (
                "study.yaml:9: model.quantization: quantized weights cannot be trained, only an"
                " adapter over them (got nf4; expected null with `tune: full`)."
                " Leave it out, or write `tune: lora`."
            ),
        ),
        (
            "model: {path: models/tiny}",
            "model: {path: models/tiny, dtype: float32, attention: flash_attention_2}",
            (
                "study.yaml:9: model.attention: flash attention computes in sixteen bits only"
                " (got flash_attention_2; expected sdpa or eager with float32)."
                " Choose sdpa, or `training.precision: bfloat16`."
            ),
        ),
        (
            "{kind: cosine}",
            "{kind: constant, final: 0.1}",
            (
                "study.yaml:17: training.schedule.final: a constant schedule stays at its peak"
                " (got 0.1). Leave `final` out, or choose linear or cosine."
            ),
        ),
    ],
)
def test_a_broken_rule_is_told_with_its_place_and_the_way_on(write_study, old, new, fault) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study((old, new)))

    assert str(caught.value) == fault


def test_a_bfloat16_base_does_not_go_with_float32_arithmetic(write_study) -> None:
    file = write_study(
        ("{path: models/tiny}", "{path: models/tiny, dtype: bfloat16}"),
        (UPDATE, f"{UPDATE}\n  precision: float32"),
    )

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert str(caught.value) == (
        "study.yaml:19: training.precision: does not go with a bfloat16 base"
        " (got float32; expected bfloat16 or auto with `model.dtype: bfloat16`)."
    )


@pytest.mark.parametrize(
    ("dtype", "tune", "precision"),
    [
        ("bfloat16", "lora", "auto"),
        ("bfloat16", "lora", "bfloat16"),
        ("float32", "lora", "bfloat16"),
        ("float32", "full", "bfloat16"),
        ("auto", "full", "float32"),
        ("float32", "lora", "float16"),
        ("auto", "full", "float16"),
    ],
)
def test_other_precisions_go_together(load, dtype, tune, precision) -> None:
    study = load(
        ("{path: models/tiny}", f"{{path: models/tiny, dtype: {dtype}}}"),
        ("tune: lora", f"tune: {tune}"),
        (UPDATE, f"{UPDATE}\n  precision: {precision}"),
    ).study

    assert study.training.precision == precision


def test_a_packed_row_may_be_as_long_as_a_record(load) -> None:
    study_file = load(("max_length: 512", "max_length: 512\n  packing: {row_tokens: 512}"))

    assert study_file.study.data.packing is not None
    assert study_file.study.data.packing.row_tokens == 512
    assert study_file.not_yet == ()


@pytest.mark.parametrize("final", ["0", "0.0"])
def test_a_constant_schedule_may_repeat_the_default_floor(load, final) -> None:
    study = load(("{kind: cosine}", f"{{kind: constant, final: {final}}}")).study

    assert study.training.schedule.final == 0.0


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (
            "{kind: cosine, warmup: {target_tokens: 5}}",
            [
                (
                    "study.yaml:17: training.schedule.warmup.target_tokens: the schedule"
                    " counts updates"
                    " (expected updates or fraction)."
                )
            ],
        ),
        (
            "{kind: cosine, counter: target_tokens, warmup: {updates: 5}}",
            [
                (
                    "study.yaml:17: training.schedule.warmup.updates: the schedule"
                    " counts target_tokens"
                    " (expected target_tokens or fraction)."
                ),
            ],
        ),
        (
            "{kind: cosine, warmup: {updates: 5, fraction: 0.1}}",
            [
                (
                    "study.yaml:17: training.schedule.warmup: give one of `updates`,"
                    " `target_tokens` and"
                    " `fraction`."
                )
            ],
        ),
    ],
)
def test_warm_up_is_in_the_counters_unit_or_a_fraction(write_study, schedule, told) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study(("{kind: cosine}", schedule)))

    assert str(caught.value).splitlines() == told


def test_a_rate_beside_an_earlier_choice_is_one_too_many(write_study) -> None:
    file = write_study(("tune: lora", "tune: lora\nbaseline: {from: runs/earlier}"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert str(caught.value) == (
        "study.yaml:17: training.learning_rate: `baseline.from` gives the rate already."
        " Leave one of them out."
    )


def test_arms_given_as_values_follow_the_same_rules(write_study) -> None:
    file = write_study(
        ("key: training.learning_rate", "key: training.precision"),
        (ARMS, "values: {baseline: float32, Other: float32}"),
        (UPDATE, f"{UPDATE}\n  precision: bfloat16"),
    )

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    told = str(caught.value)
    assert (
        "compare.values.baseline: the baseline is the study as it stands"
        " (got float32; expected bfloat16, the value of training.precision)." in told
    )
    assert "compare.values.Other: not the name of an arm" in told
    assert "compare.values.Other: the same value as the arm `baseline` (got float32)." in told


def test_settings_of_adapter_and_model_are_taken_as_written(load) -> None:
    adapter = "dora: true, rank_pattern: {q_proj: 8}, modules_to_save: [lm_head]"
    study = load(
        ("{path: models/tiny}", "{path: models/tiny, quantization: nf4}"),
        ("tune: lora", f"tune: lora\nlora: {{{adapter}}}"),
        (UPDATE, f"{UPDATE}\n  gradient_checkpointing: true\n  tf32: true"),
    ).study

    assert study.model.quantization == "nf4"
    assert study.lora is not None
    assert (study.lora.dora, study.lora.rank_pattern) == (True, {"q_proj": 8})
    assert study.lora.modules_to_save == ("lm_head",)
    assert (study.training.gradient_checkpointing, study.training.tf32) == (True, True)


BATCHES = (
    ("key: training.learning_rate", "key: training.records_per_update"),
    ("kind: rate_too_high", "kind: which"),
)


def test_an_update_takes_whole_records(write_study) -> None:
    """Half of 3 records is none; three times 0.7 is not whole either."""
    file = write_study(*BATCHES, (UPDATE, "records_per_update: 3"), ("double: 2", "more: 0.7"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert [fault.got for fault in caught.value.faults] == ["0.5 x 3 = 1.5", "0.7 x 3 = 2.1"]


def test_a_factor_whose_product_is_whole_but_for_its_last_bit_is_whole(load) -> None:
    """0.7 x 10 is 7.000000000000001 in floating point."""
    study = load(*BATCHES, (UPDATE, "records_per_update: 10"), ("double: 2", "less: 0.7")).study

    assert plan_arms(study)[2].records_per_update == 7


def test_a_batch_size_study_neither_asks_about_the_rate_nor_extends_it(write_study) -> None:
    file = write_study(BATCHES[0], ("tune: lora", "tune: lora\nselection: {extensions: 1}"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert [(fault.where, fault.got) for fault in caught.value.faults] == [
        ("study.yaml:2: question.kind", "rate_too_high"),
        ("study.yaml:11: selection.extensions", "1"),
    ]
