"""Keys without effect: accepted at their default or null, listed, and otherwise refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.loading import load_study

EXAMPLE = Path(__file__).parent / "example_study.yaml"


def test_the_example_is_a_study_and_its_keys_without_effect_are_listed() -> None:
    study_file = load_study(EXAMPLE)

    assert [(key.key, key.written) for key in study_file.not_yet] == [
        ("run.trackers", "[]"),
    ]


MODEL = "{path: models/tiny}"
TUNE = "tune: lora"
LENGTH = "max_length: 512"
MICRO = "micro_batch: 2"


@pytest.mark.parametrize(
    ("old", "new", "key", "capability"),
    [
        (MICRO, "micro_batch: 2, trackers: [{kind: mlflow}]", "run.trackers", "outside trackers"),
        (
            "{path: data/train.jsonl}",
            "{hub: org/name}",
            "data.train.hub",
            "data sets from a hub",
        ),
        ("data/train.jsonl", "data/train.csv", "data.train.path", "CSV and Parquet files"),
        ("data/train.jsonl", "data/train.csv.gz", "data.train.path", "CSV and Parquet files"),
        (
            "data/validation.jsonl",
            "data/validation.parquet",
            "data.validation.path",
            "CSV and Parquet files",
        ),
        (MICRO, "micro_batch: auto", "run.micro_batch", "`auto`"),
    ],
)
def test_what_is_not_built_is_refused_in_one_fault(write_study, old, new, key, capability) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study((old, new)))

    (fault,) = caught.value.faults
    assert fault.where is not None
    assert fault.where.endswith(f": {key}")
    assert fault.what.startswith(f"not yet in effect: {capability}")


def test_the_refusal_names_the_default(write_study) -> None:
    file = write_study((MICRO, "micro_batch: 2, trackers: [{kind: mlflow}]"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert str(caught.value) == (
        "study.yaml:19: run.trackers: not yet in effect: outside trackers"
        " (got a list; expected [], the default). Leave the key out."
    )


def test_a_micro_batch_must_be_given(write_study) -> None:
    with pytest.raises(StudyFileError) as caught:
        load_study(write_study(("run: {micro_batch: 2}\n", "")))

    assert str(caught.value) == (
        "study.yaml: run.micro_batch: not yet in effect: `auto`, the micro-batch found by"
        " measuring (expected the number of records per forward pass, for example 4)."
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MICRO, "micro_batch: 2, trackers: null"),
    ],
)
def test_null_is_accepted_where_nothing_is_in_effect(load, old, new) -> None:
    study_file = load((old, new))

    assert study_file.study == load().study
    assert study_file.not_yet != ()


def test_how_slots_are_shared_and_a_deadline_are_in_effect(load) -> None:
    study_file = load((MICRO, "micro_batch: 2, trials_per_device: 2, use_busy: true, deadline: 2d"))

    run = study_file.study.run
    assert (run.trials_per_device, run.use_busy, run.deadline) == (2, True, "2d")
    assert study_file.not_yet == ()


def test_a_tolerance_between_precisions_is_in_effect(load) -> None:
    study_file = load((TUNE, "tune: lora\nselection: {precision_tolerance: 0.02}"))

    assert study_file.study.selection.precision_tolerance == 0.02
    assert study_file.not_yet == ()


def test_a_target_loss_is_in_effect(load) -> None:
    study_file = load((TUNE, "tune: lora\nselection: {target_loss: 1.5}"))

    assert study_file.study.selection.target_loss == 1.5
    assert study_file.not_yet == ()


def test_a_lost_trial_may_start_over_as_often_as_is_asked(load) -> None:
    study_file = load((MICRO, "micro_batch: 2, max_resumes: 1"))

    assert study_file.study.run.max_resumes == 1
    assert study_file.not_yet == ()
