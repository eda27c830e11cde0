"""The manifest, and the check that sources are still what was prepared."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sweeper.data.manifest import (
    Dropped,
    DropReason,
    Manifest,
    SealedManifest,
    SplitManifest,
    changed_sources,
)
from sweeper.errors import RunFolderError


def split_manifest(file: Path, *, holds_test_records: bool = False) -> SplitManifest:
    content = file.read_bytes()
    return SplitManifest(
        source=str(file),
        size_bytes=len(content),
        modified_ns=file.stat().st_mtime_ns,
        file_sha256=hashlib.sha256(content).hexdigest(),
        holds_test_records=holds_test_records,
        format="text",
        records_read=2,
        records=1,
        dropped=(Dropped(reason=DropReason.OVERLONG, count=1, record_numbers=(2,)),),
        cut=0,
        target_tokens=3,
        input_tokens=4,
        longest_tokens=4,
        records_digest="00",
        tokens_digest="11",
    )


def manifest(**splits: SplitManifest) -> Manifest:
    return Manifest(
        request_digest="aa",
        model_digest="bb",
        model_commit=None,
        tokenizer_digest="cc",
        uses_chat_template=False,
        pad_token_id=0,
        vocabulary_size=12,
        splits=splits,
        test=SealedManifest(source=None, records=None, records_digest="dd", overlap_checked=False),
        overlaps=(),
        notices=("a notice",),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "one"}\n')
    return path


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path, file: Path) -> None:
    written = manifest(train=split_manifest(file))
    (tmp_path / "manifest.json").write_text(written.to_json())
    assert Manifest.read(tmp_path) == written


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="the prepared data have no manifest"):
        Manifest.read(tmp_path)


def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(RunFolderError, match="this is no manifest of ours"):
        Manifest.read(tmp_path)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path, file: Path) -> None:
    """Version 1 has no groups beside the digests of its records."""
    older = manifest(train=split_manifest(file)).model_copy(update={"version": 1})
    (tmp_path / "manifest.json").write_text(older.to_json())
    with pytest.raises(RunFolderError, match="the manifest has version 1, not 2"):
        Manifest.read(tmp_path)


def test_an_untouched_source_has_not_changed(file: Path) -> None:
    assert changed_sources(manifest(train=split_manifest(file))) == ()


def test_a_source_with_a_new_time_and_old_contents_has_not_changed(file: Path) -> None:
    made = manifest(train=split_manifest(file))
    os.utime(file, ns=(1, 1))
    assert changed_sources(made) == ()


@pytest.mark.parametrize("content", ['{"text": "two"}\n', '{"text": "longer"}\n'])
def test_a_source_with_other_contents_has_changed(file: Path, content: str) -> None:
    made = manifest(train=split_manifest(file))
    file.write_text(content)
    os.utime(file, ns=(1, 1))
    (fault,) = changed_sources(made)
    assert fault.what == "the file has changed since the study was prepared"
    assert fault.where == str(file)


def test_a_source_that_is_gone_is_named(file: Path) -> None:
    made = manifest(train=split_manifest(file))
    file.unlink()
    (fault,) = changed_sources(made)
    assert fault.what == (
        "a file that the study was prepared from cannot be read: No such file or directory"
    )


def test_one_source_of_two_splits_is_reported_once(file: Path) -> None:
    made = manifest(train=split_manifest(file), validation=split_manifest(file))
    file.unlink()
    assert len(changed_sources(made)) == 1


def test_a_file_that_holds_test_records_is_not_even_looked_for(file: Path) -> None:
    made = manifest(train=split_manifest(file, holds_test_records=True))
    file.unlink()
    assert changed_sources(made) == ()
