"""Relative paths are relative to the study file; hub ids stay what they are."""

from __future__ import annotations

import pytest

from sweeper.study.places import prepare_request, resolved_model


def test_records_and_the_template_get_absolute_paths(load, tmp_path) -> None:
    study = load(
        ("{path: data/train.jsonl}", "{path: ../shared/train.jsonl}"),
        ("max_length: 512", "max_length: 512\n  chat_template: chat.jinja"),
        ("{path: data/validation.jsonl}", "{path: /data/validation.jsonl}"),
    ).study

    data = prepare_request(study, tmp_path).data

    assert data.train is not None
    assert data.validation is not None
    assert data.train.path == str((tmp_path.parent / "shared" / "train.jsonl").resolve())
    assert data.validation.path == "/data/validation.jsonl"
    assert data.chat_template == str((tmp_path / "chat.jinja").resolve())
    assert data.max_length == 512


def test_a_sealed_digest_stays_a_digest(load, tmp_path) -> None:
    digest = "a" * 64
    study = load(("max_length: 512", f"max_length: 512\n  test: {{sha256: {digest}}}")).study

    data = prepare_request(study, tmp_path).data

    assert data.test is not None
    assert (data.test.path, data.test.sha256) == (None, digest)


@pytest.mark.parametrize("written", ["models/tiny", "./models/tiny", "../here/models/tiny"])
def test_a_model_folder_is_found_beside_the_study_file(load, tmp_path, written) -> None:
    here = tmp_path / "here"
    (here / "models" / "tiny").mkdir(parents=True)
    study = load(("models/tiny", written)).study

    assert resolved_model(study, here).path == str((here / "models" / "tiny").resolve())


def test_a_name_that_is_no_folder_is_a_hub_id(load, tmp_path) -> None:
    study = load(("models/tiny", "org/tiny")).study

    assert resolved_model(study, tmp_path).path == "org/tiny"


def test_a_missing_folder_written_as_a_path_stays_a_path(load, tmp_path) -> None:
    study = load(("models/tiny", "./missing")).study

    assert resolved_model(study, tmp_path).path == str((tmp_path / "missing").resolve())
