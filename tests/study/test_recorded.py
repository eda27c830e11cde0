"""A study on record keeps its prepared data; files that are no longer the same are a conflict."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sweeper.data.identity import model_digest
from sweeper.data.manifest import Manifest, SplitManifest, file_sha256
from sweeper.errors import StudyConflict
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import stamp
from sweeper.study.places import prepare_request
from sweeper.study.preparing import prepare
from sweeper.study.recorded import is_recorded

SPLIT_SOURCES = {"train": "data/train.jsonl", "validation": "data/validation.jsonl"}


@pytest.fixture
def folder(tmp_path) -> StudyFolder:
    return StudyFolder(tmp_path / "runs" / "small")


@pytest.fixture
def study_file(load, tmp_path, manifest, folder):
    """The small study with its files, prepared and on record; no child process is needed."""
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "README.md").write_text("A model.")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("train\n")
    (tmp_path / "data" / "validation.jsonl").write_text("validation\n")
    (tmp_path / "data" / "test.jsonl").write_text("sealed\n")
    loaded = load(("max_length: 512", "max_length: 512\n  test: {path: data/test.jsonl}"))
    request = prepare_request(loaded.study, tmp_path)
    folder.prepared.mkdir(parents=True)
    splits = {name: _as_read(manifest.splits[name], tmp_path) for name in SPLIT_SOURCES}
    made: Manifest = manifest.model_copy(
        update={
            "request_digest": request.digest(),
            "model_digest": model_digest(model),
            "splits": splits,
        }
    )
    folder.manifest.write_text(made.to_json())
    (folder.prepared / "request.json").write_text(request.to_json())
    folder.inputs.write_text(stamp(request).model_dump_json())
    folder.recorded_study.write_text(loaded.text)
    return loaded


def _as_read(split: SplitManifest, base: Path) -> SplitManifest:
    file = (base / SPLIT_SOURCES[Path(split.source).stem]).resolve()
    stat = file.stat()
    return split.model_copy(
        update={
            "source": str(file),
            "size_bytes": stat.st_size,
            "modified_ns": stat.st_mtime_ns,
            "file_sha256": file_sha256(file),
        }
    )


def conflict(study_file, folder) -> str:
    with pytest.raises(StudyConflict) as caught:
        prepare(study_file, folder)
    return str(caught.value)


def test_a_folder_with_a_study_or_a_database_is_on_record(tmp_path) -> None:
    folder = StudyFolder(tmp_path)

    assert not is_recorded(folder)
    folder.database.touch()
    assert is_recorded(folder)
    folder.database.unlink()
    folder.recorded_study.touch()
    assert is_recorded(folder)


def test_unchanged_files_leave_the_manifest_in_authority(study_file, folder) -> None:
    assert prepare(study_file, folder) == Manifest.read(folder.prepared)


def test_data_that_another_version_prepared_are_a_conflict_with_a_way_on(
    study_file, folder
) -> None:
    made = Manifest.read(folder.prepared)
    folder.manifest.write_text(made.model_copy(update={"version": 1}).to_json())

    assert conflict(study_file, folder) == (
        f"{folder.manifest}: the manifest has version 1, not 2. Go on with the version of sweeper"
        " that the study was begun with, or start over: `sweeper run --replace` while no trial is"
        " completed or stopped, `--as NEW-NAME` always."
    )


def test_other_options_are_left_to_the_fingerprint(study_file, folder, load) -> None:
    changed = load(("max_length: 512", "max_length: 256\n  test: {path: data/test.jsonl}"))

    assert prepare(changed, folder) == Manifest.read(folder.prepared)


def test_changed_records_are_a_conflict(study_file, folder, tmp_path) -> None:
    (tmp_path / "data" / "train.jsonl").write_text("other records\n")

    told = conflict(study_file, folder)

    assert told.startswith(f"{(tmp_path / 'data' / 'train.jsonl').resolve()}: the file has changed")


def test_a_touched_file_with_the_same_contents_is_no_conflict(study_file, folder, tmp_path) -> None:
    os.utime(tmp_path / "data" / "train.jsonl", (1, 1))
    os.utime(tmp_path / "models" / "tiny" / "config.json", (1, 1))

    assert prepare(study_file, folder) == Manifest.read(folder.prepared)


def test_a_missing_or_changed_test_file_is_not_looked_at(study_file, folder, tmp_path) -> None:
    (tmp_path / "data" / "test.jsonl").unlink()

    assert prepare(study_file, folder) == Manifest.read(folder.prepared)


def test_records_that_moved_unchanged_are_the_same_records(
    study_file, folder, tmp_path, load
) -> None:
    shutil.move(tmp_path / "data" / "train.jsonl", tmp_path / "data" / "moved.jsonl")
    moved = load(
        ("data/train.jsonl", "data/moved.jsonl"),
        ("max_length: 512", "max_length: 512\n  test: {path: data/test.jsonl}"),
    )

    assert prepare(moved, folder) == Manifest.read(folder.prepared)


@pytest.mark.parametrize("name", ["validation.jsonl", "nothing.jsonl"])
def test_another_file_in_their_place_is_a_conflict(
    study_file, folder, tmp_path, load, name
) -> None:
    other = load(
        ("data/train.jsonl", f"./data/{name}"),
        ("max_length: 512", "max_length: 512\n  test: {path: data/test.jsonl}"),
    )
    place = (tmp_path / "data").resolve()

    assert conflict(other, folder) == (
        f"{place / name}: another file than the study was prepared from"
        f" (expected {place / 'train.jsonl'})."
        " Put it back, or run another study: `--as NEW-NAME`, or `--replace` while no"
        " trial has ended."
    )


def test_a_moved_source_that_holds_test_records_is_not_looked_at(
    study_file, folder, tmp_path, load
) -> None:
    manifest = Manifest.read(folder.prepared)
    train = manifest.splits["train"].model_copy(update={"holds_test_records": True})
    sealed = manifest.model_copy(update={"splits": {**manifest.splits, "train": train}})
    folder.manifest.write_text(sealed.to_json())
    moved = load(
        ("data/train.jsonl", "data/moved.jsonl"),
        ("max_length: 512", "max_length: 512\n  test: {path: data/test.jsonl}"),
    )

    assert "holds test records and cannot be looked at" in conflict(moved, folder)


@pytest.mark.parametrize(
    "test", ["", "\n  test: {sha256: " + "a" * 64 + "}"], ids=["taken away", "another"]
)
def test_another_test_split_is_a_conflict(study_file, folder, load, test) -> None:
    other = load(("max_length: 512", f"max_length: 512{test}"))

    assert conflict(other, folder).startswith("data.test: the test split was settled")


def test_another_model_under_the_same_path_is_a_conflict(study_file, folder, tmp_path) -> None:
    model = tmp_path / "models" / "tiny"
    (model / "config.json").write_text('{"other": 1}')

    assert conflict(study_file, folder) == (
        f"{model.resolve()}: not the model that the study was prepared with."
        " Put it back, or run another study: `--as NEW-NAME`, or `--replace` while no"
        " trial has ended."
    )


def test_prose_beside_the_model_may_change(study_file, folder, tmp_path) -> None:
    (tmp_path / "models" / "tiny" / "README.md").write_text("A better model.")

    assert prepare(study_file, folder) == Manifest.read(folder.prepared)


def test_prepared_data_that_are_gone_are_not_made_anew(study_file, folder) -> None:
    """Making them anew would read the test split a second time."""
    shutil.rmtree(folder.prepared)

    with pytest.raises(StudyConflict, match=r"prepared data .* are gone.*--as NEW-NAME"):
        prepare(study_file, folder)

    assert not folder.prepared.exists()
