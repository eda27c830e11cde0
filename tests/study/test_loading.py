"""The study file and every fault of it, in the words a user reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.loading import load_study

RATE = "learning_rate: 0.25"
RATE_EXPECTED = "expected a number above 0 and of at most 1"


def message(file: Path) -> str:
    with pytest.raises(StudyFileError) as caught:
        load_study(file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("spelling", "rate"),
    [
        ("3e-4", 0.0003),
        ("2E-5", 0.00002),
        ("1.0e-5", 0.00001),
        ("1.0e-1", 0.1),
        ("+3e-4", 0.0003),
        (".5", 0.5),
        ("0.00002", 0.00002),
        ("1", 1.0),
    ],
)
def test_every_ordinary_spelling_of_a_number_is_that_number(load, spelling, rate) -> None:
    study = load((RATE, f"learning_rate: {spelling}"), ("double: 2", "double: 0.7")).study

    assert study.training.learning_rate == rate


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("3e-4,", f"not a number (got 3e-4,; {RATE_EXPECTED}). Remove the `,`: write 0.0003."),
        (
            "0,0003",
            (
                f"not a number (got 0,0003; {RATE_EXPECTED})."
                " The decimal mark is a point: write 0.0003."
            ),
        ),
        ('"3e-4"', f'not a number (got "3e-4"; {RATE_EXPECTED}). Remove the quotes: write 3e-4.'),
        ("0", f"out of range (got 0; {RATE_EXPECTED})."),
        ("-1.0e-4", f"out of range (got -1.0e-4; {RATE_EXPECTED}). Did you mean 0.0001?"),
        (".nan", f"not a finite number (got .nan; {RATE_EXPECTED})."),
        (".inf", f"not a finite number (got .inf; {RATE_EXPECTED})."),
        ("1e400", f"not a finite number (got 1e400; {RATE_EXPECTED})."),
        ("5e5", f"out of range (got 5e5; {RATE_EXPECTED}). Did you mean 5e-5?"),
        ("500000", f"out of range (got 500000; {RATE_EXPECTED}). Did you mean 5e-5?"),
        ("true", f"not a number (got true; {RATE_EXPECTED})."),
        ("", f"nothing is given ({RATE_EXPECTED})."),
        ("null", f"nothing is given ({RATE_EXPECTED})."),
        ("[3e-4]", f"not what belongs here (got a list; {RATE_EXPECTED})."),
        ("fast", f"not a number (got fast; {RATE_EXPECTED})."),
    ],
)
def test_a_rate_that_is_none_is_refused_with_what_was_written(write_study, value, fault) -> None:
    file = write_study((RATE, f"learning_rate: {value}"))

    assert message(file) == f"study.yaml:16: training.learning_rate: {fault}"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "target_tokens: 17",
            "target_tokens: 2e4",
            (
                "study.yaml:8: budget.target_tokens: not a whole number"
                " (got 2e4; expected a whole number above 0). Write 20000."
            ),
        ),
        (
            "budget: {target_tokens: 17}",
            "budget:\n  target_tokens: 20,000",
            (
                "study.yaml:9: budget.target_tokens: not a whole number"
                " (got 20,000; expected a whole number above 0). Write the digits"
                " without gaps: 20000."
            ),
        ),
        (
            "records_per_update: 4",
            "records_per_update: 0",
            (
                "study.yaml:18: training.records_per_update: out of range"
                " (got 0; expected a whole number above 0)."
            ),
        ),
        (
            "micro_batch: 2",
            "micro_batch: 1.5",
            (
                "study.yaml:19: run.micro_batch: not a whole number"
                " (got 1.5; expected a whole number above 0 or auto)."
            ),
        ),
        (
            "seeds: [0, 1]",
            "seeds: [0, -1]",
            (
                "study.yaml:7: seeds[1]: out of range"
                " (got -1; expected a whole number of at least 0 and below 4294967296)."
            ),
        ),
        (
            "kind: cosine",
            "kind: cosin",
            (
                "study.yaml:17: training.schedule.kind: not one of the choices"
                " (got cosin; expected one of constant, linear, cosine). Did you mean cosine?"
            ),
        ),
        (
            "micro_batch: 2",
            "micro_batch: 2, limits: {hang: 90:00}",
            (
                "study.yaml:19: run.limits.hang: not what belongs here"
                " (got 90:00; expected a duration above zero with its unit: 90s, 10m, 2h or 1d)."
            ),
        ),
        (
            "micro_batch: 2",
            "micro_batch: 2, limits: {host_memory: 16GB}",
            (
                "study.yaml:19: run.limits.host_memory: not what belongs here"
                " (got 16GB; expected a size above zero with its unit: 512MiB or 16GiB)."
            ),
        ),
        (
            "name: small",
            "name: 2024",
            (
                "study.yaml:1: name: not what belongs here (got 2024; expected a name"
                " of at most 100"
                " letters, digits, `.`, `_` and `-`, which begins with a letter or a digit)."
                ' Write it in quotes: "2024".'
            ),
        ),
        (
            "name: small",
            "name: ../small",
            (
                "study.yaml:1: name: not what belongs here (got ../small; expected a"
                " name of at most"
                " 100 letters, digits, `.`, `_` and `-`, which begins with a letter or a digit)."
            ),
        ),
        (
            "tune: lora",
            "tune:",
            "study.yaml:10: tune: nothing is given (expected one of lora, full).",
        ),
        (
            "tune: lora\n",
            "",
            "study.yaml: tune: a required key is missing (expected one of lora, full).",
        ),
        (
            "  max_length: 512\n",
            "",
            (
                "study.yaml:11: data.max_length: a required key is missing"
                " (expected a whole number above 0)."
            ),
        ),
        (
            "  validation: {path: data/validation.jsonl}\n",
            "  test: {path: data/test.jsonl}\n",
            "study.yaml:11: data: give `train` and `validation`, or `source` and `split`.",
        ),
        (
            "records_per_update: 4",
            "records_per_update: 4\n  optimizer: {kind: sdg}",
            (
                "study.yaml:19: training.optimizer.kind: not one of the choices"
                " (got sdg; expected one of adamw, sgd). Did you mean sgd?"
            ),
        ),
        (
            "records_per_update: 4",
            "records_per_update: 4\n  optimizer: {eps: 1e-8}",
            (
                "study.yaml:19: training.optimizer.kind: a required key is missing"
                " (expected one of adamw, sgd)."
            ),
        ),
        (
            "records_per_update: 4",
            "records_per_update: 4\n  optimizer: {kind: adamw, betas: [0.9]}",
            (
                "study.yaml:19: training.optimizer.betas: not what belongs here (got"
                " a list; expected"
                " a list of 2, each entry a number of at least 0 and below 1)."
            ),
        ),
    ],
)
def test_a_wrong_value_is_named_with_line_key_and_what_belongs_there(
    write_study, old, new, fault
) -> None:
    assert message(write_study((old, new))) == fault


TOP = (
    "expected one of name, question, justification, compare, seeds, baseline, budget, model, tune,"
    " lora, data, training, evaluation, stop, selection, run"
)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "tune: lora",
            "tune: lora\nlearning_rte: 1.0e-4",
            (
                f"study.yaml:11: learning_rte: unknown key ({TOP})."
                " Did you mean `learning_rate`, which is valid under training?"
            ),
        ),
        (
            "tune: lora",
            "tune: lora\ntraning: {}",
            f"study.yaml:11: traning: unknown key ({TOP}). Did you mean `training`?",
        ),
        (
            "model: {path: models/tiny}",
            "model: {path: models/tiny, learning_rate: 1e-4}",
            (
                "study.yaml:9: model.learning_rate: unknown key (expected one of"
                " path, revision, dtype,"
                " attention, quantization, trust_remote_code)."
                " `learning_rate` is valid under training."
            ),
        ),
        (
            "{kind: cosine}",
            "{kind: cosine, warmup: {update: 3, updates: 3}}",
            (
                "study.yaml:17: training.schedule.warmup.update: unknown key"
                " (expected one of updates, target_tokens, fraction). Did you mean `updates`?"
                " "
            ),
        ),
        (
            "records_per_update: 4",
            "records_per_update: 4\n  optimizer: {kind: sgd, betas: [0.9, 0.99]}",
            (
                "study.yaml:19: training.optimizer.betas: unknown key"
                " (expected one of kind, momentum, weight_decay)."
                " `betas` is valid under training.optimizer of kind adamw."
            ),
        ),
        (
            "tune: lora",
            "tune: lora\nlora: {dropout: 0,05}",
            (
                "study.yaml:11: lora.05: unknown key (expected one of rank, alpha,"
                " dropout, targets,"
                " dora, rslora, rank_pattern, alpha_pattern, modules_to_save)."
                " The decimal mark is a point: write 0.05 if it was meant as a number."
            ),
        ),
        (
            "tune: lora",
            "tune: lora\nselection: {metric: train_loss}",
            (
                "study.yaml:11: selection.metric: unknown key (expected one of checkpoint,"
                " smallest_difference, retention_margin, extensions, target_loss,"
                " precision_tolerance,"
                " noise_floor). Selection always minimises the validation loss in nats per target"
                " token: there is no metric or direction to set."
            ),
        ),
        (
            "micro_batch: 2",
            "micro_batch: 2, trackers: [{kind: wandb, projekt: x}]",
            (
                "study.yaml:19: run.trackers[0].projekt: unknown key"
                " (expected one of kind, uri, project). Did you mean `project`?"
            ),
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_and_where_it_belongs(
    write_study, old, new, fault
) -> None:
    assert message(write_study((old, new))) == fault.rstrip()


def test_all_faults_of_a_file_are_told_at_once_in_the_order_of_their_lines(write_study) -> None:
    file = write_study(
        ("seeds: [0, 1]", "seeds: [0, 0]\nsede: 1"),
        ("tune: lora", "tune: full\nlora: {rank: 4}\ntune: full"),
        (RATE, f"{RATE},"),
        ("micro_batch: 2", "micro_batch: 2, tls: true, trackers: [{kind: mlflow}]"),
    )

    told = message(file).splitlines()

    assert [line.split(": ")[:2] for line in told] == [
        ["study.yaml:7", "seeds[1]"],
        ["study.yaml:8", "sede"],
        ["study.yaml:12", "lora"],
        ["study.yaml:13", "tune"],
        ["study.yaml:19", "training.learning_rate"],
        ["study.yaml:22", "run.tls"],
        ["study.yaml:22", "run.trackers"],
    ]


def test_a_variable_is_refused_outside_the_storage_url(write_study) -> None:
    file = write_study(("model: {path: models/tiny}", "model:\n  path: ${HOME}/tiny"))

    assert message(file) == (
        "study.yaml:10: model.path: variables are not replaced here (got ${HOME};"
        " expected the value itself; `${...}` is allowed in run.storage only)."
    )


def test_half_a_character_is_refused(write_study) -> None:
    told = message(write_study(("name: small", 'name: "\\ud800"')))

    assert told == "study.yaml:1: name: half of a surrogate pair is no text (got \\ud800)."


def test_prose_may_speak_of_variables(load) -> None:
    study = load(("The loss spikes.", "We set ${RATE} by hand.")).study

    assert study.justification == "We set ${RATE} by hand."


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql+psycopg://user:secret@host/db", "a password does not belong in a study file"),
        ("postgresql+psycopg://user:secret${X}@host/db", "a password does not belong"),
        ("postgresql+psycopg://user:p@secret:w/rd%1@host/db", "not a place for a study's record"),
        ("postgresql+psycopg://host/db?password=secret", "`password` cannot be set in the query"),
        ("postgresql+psycopg://${X}:${Y}@host/db?options=-csecret", "`options` cannot be set"),
        ("postgresql://user:secret@host/db", "not a place for a study's record"),
        ("mysql://user:secret@host/db", "not a place for a study's record"),
        ("sqlite:///secret.db", "not a place for a study's record"),
    ],
)
def test_a_storage_url_is_refused_without_a_piece_of_a_password(write_study, url, what) -> None:
    told = message(write_study(("{micro_batch: 2}", f"\n  micro_batch: 2\n  storage: {url}")))

    assert told.startswith(f"study.yaml:21: run.storage: {what}")
    assert "secret" not in told
    assert "expected sqlite, or postgresql+psycopg://USER:${PASSWORD}@HOST/DATABASE" in told


@pytest.mark.parametrize(
    "url",
    [
        "sqlite",
        "${DATABASE_URL}",
        "postgresql+psycopg://user:${PASSWORD}@db-1.example.org:5432/studies?sslmode=require",
        "postgresql+psycopg://${NAME}@[::1]/studies",
        "postgresql+psycopg:///studies?host=/var/run/postgresql",
    ],
)
def test_a_storage_url_is_kept_as_it_is_written(load, url) -> None:
    study = load(("{micro_batch: 2}", f'\n  micro_batch: 2\n  storage: "{url}"')).study

    assert study.run.storage == url


def test_a_study_whose_path_is_not_utf_8_is_refused_by_its_bytes(write_study, tmp_path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    file = write_study().rename(folder / "study.yaml")

    assert message(file) == (
        f"{tmp_path}/caf\\xe9/study.yaml: the path of a study has to be UTF-8 (got byte 0xe9). "
        "Rename the folder or the file."
    )


def test_a_key_merged_in_and_overridden_is_no_fault(load) -> None:
    study = load(
        ("train: {path", "train: &file {path"),
        ("validation: {path", "validation: {<<: *file, path"),
    ).study

    assert study.data.train is not None
    assert study.data.validation is not None
    assert study.data.train.path == "data/train.jsonl"
    assert study.data.validation.path == "data/validation.jsonl"


def test_a_file_with_a_byte_order_mark_or_with_crlf_is_the_same_study(
    write_study, study_text, load
) -> None:
    plain = load().study
    file = Path("other.yaml")
    file.write_bytes(b"\xef\xbb\xbf" + study_text.replace("\n", "\r\n").encode())

    assert load_study(file).study == plain


def test_what_the_file_gives_is_told_apart_from_defaults(load) -> None:
    study_file = load(("tune: lora", "tune: lora\nlora: {rank: 16}"))

    assert "lora.rank" in study_file.given
    assert "lora.alpha" not in study_file.given
    assert "compare.multiply.half" in study_file.given


def test_the_path_is_absolute_and_the_text_is_kept(load, study_text, tmp_path) -> None:
    study_file = load()

    assert study_file.path == (tmp_path / "study.yaml").resolve()
    assert study_file.text == study_text


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "study.yaml: the file is empty (expected a study)."),
        (b"# nothing but a comment\n", "study.yaml: the file is empty (expected a study)."),
        (
            b"- name\n",
            "study.yaml:1: not a mapping of keys (expected keys with their values, `name:` first).",
        ),
        (
            b"name: a\nmodel:\n\tpath: b\n",
            (
                "study.yaml:3, column 1: a tab where YAML expects spaces."
                " Use spaces: YAML does not indent with tabs."
            ),
        ),
        (
            b"name: small\n# \xc4\xe3\xba\xc3\n",
            "study.yaml:2: not UTF-8 at byte 14 (got byte 0xc4). Save the file as UTF-8.",
        ),
        (
            b"\xef\xbb\xbfname: \xff\n",
            "study.yaml:1: not UTF-8 at byte 9 (got byte 0xff). Save the file as UTF-8.",
        ),
        (
            b"name: a\nlora: {rank: 4\ntune: lora\n",
            (
                "study.yaml:3, column 5: not YAML: while parsing a flow mapping"
                " expected ',' or '}', but got ':'."
            ),
        ),
    ],
)
def test_a_file_that_is_no_mapping_in_utf8_is_refused(write_study, content, fault) -> None:
    file = write_study()
    file.write_bytes(content)

    assert message(file) == fault


def test_a_missing_file_is_named_with_the_way_on(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert message(Path("stdy.yaml")) == (
        "stdy.yaml: no such file. `sweeper init` writes a study file to start from."
    )


def test_a_folder_is_no_study_file(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").mkdir()

    assert message(Path("study.yaml")) == "study.yaml: cannot be read: Is a directory."
