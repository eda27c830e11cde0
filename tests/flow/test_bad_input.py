"""Bad input: one clear message each, exit status 2, nothing half-written, no traceback."""

import json

import pytest

pytestmark = pytest.mark.slow


def refused(study, *expected, command="check"):
    done = study.here(command, str(study.study), expect=2)
    assert "Traceback" not in done.stderr
    for words in expected:
        assert words in done.stderr, done.stderr
    return done.stderr


def edit(study, old, new):
    text = study.study.read_text()
    assert old in text
    study.study.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("tune: lora", "tune: lora\nlearning_rte: 1e-4", ["learning_rte", "learning_rate"]),
        ("seeds: [0, 1]", "seeds: [0, 1]\nseeds: [2]", ["study.yaml:6: seeds", "lines 5 and 6"]),
        ("learning_rate: 2e-3", "learning_rate: 3e-4,", ["3e-4,", "0.0003"]),
        ("learning_rate: 2e-3", "learning_rate: 0", ["learning_rate", "above 0"]),
        ("learning_rate: 2e-3", "learning_rate: -1e-4", ["learning_rate", "-1e-4"]),
        ("learning_rate: 2e-3", "learning_rate: .nan", ["learning_rate", ".nan"]),
        ("learning_rate: 2e-3", "learning_rate: 5e5", ["learning_rate", "5e-5"]),
        ("target_tokens: 600", "target_tokens: 6000", ["max_epochs", "6000"]),
        ("targets: all-linear", "targets: [q_proj, vproj]", ["vproj", "v_proj"]),
    ],
    ids=[
        "unknown key",
        "duplicate key",
        "stray comma",
        "zero rate",
        "negative rate",
        "rate that is not a number",
        "absurd rate",
        "budget beyond max_epochs",
        "target that matches nothing",
    ],
)
def test_a_study_file_with(laboratory, old, new, expected):
    study = laboratory()
    edit(study, old, new)

    refused(study, *expected)


def test_all_faults_of_a_study_file_come_at_once(laboratory):
    study = laboratory()
    edit(study, "learning_rate: 2e-3", "learning_rate: 0")
    edit(study, "tune: lora", "tune: lota")
    edit(study, "micro_batch: 2", "micro_batsch: 2")

    refused(study, "learning_rate", "lota", "micro_batsch")


def test_a_missing_training_file(laboratory):
    study = laboratory(own_data=True)
    (study.folder / "train.jsonl").unlink()

    refused(study, "train.jsonl")


def test_an_empty_training_file(laboratory):
    study = laboratory(own_data=True)
    (study.folder / "train.jsonl").write_text("")

    refused(study, "train.jsonl", "empty")


def test_a_truncated_training_file(laboratory):
    study = laboratory(own_data=True)
    file = study.folder / "train.jsonl"
    file.write_bytes(file.read_bytes()[:-20])

    refused(study, "train.jsonl", "line 40", "truncated")


def test_a_record_without_an_answer(laboratory):
    study = laboratory(own_data=True)
    with (study.folder / "train.jsonl").open("a") as stream:
        stream.write(json.dumps({"prompt": "What is missing?"}) + "\n")

    refused(study, "answer", "41")


def test_validation_equal_to_training(laboratory):
    study = laboratory(own_data=True)
    (study.folder / "validation.jsonl").write_bytes((study.folder / "train.jsonl").read_bytes())

    refused(study, "validation", "train")


def test_a_run_folder_that_cannot_be_written(laboratory):
    """Root may write anywhere, so a file stands where the folder would have to be made."""
    study = laboratory(own_data=True)
    (study.folder / "runs").write_text("in the way")

    refused(study, "runs", command="run")
    assert (study.folder / "runs").read_text() == "in the way"


def test_a_study_that_does_not_exist(laboratory):
    study = laboratory(own_data=True)
    study.study.unlink()

    refused(study, "study.yaml", command="status")
