"""What was prepared, from which files, and what was left out: `prepared/manifest.json`.

After preparing, the manifest is the authority on the data of a study. Torch-free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from sweeper.errors import Fault, RunFolderError
from sweeper.options import NonNegative, Options, Positive

MANIFEST_VERSION = 2
LISTED_RECORDS = 20
"""Record numbers that are named; a count goes with them."""


class DropReason(StrEnum):
    """Why a record is not in the prepared split."""

    DUPLICATE = "duplicate"
    OVERLONG = "overlong"
    NO_TARGETS = "no_targets"


class Dropped(Options):
    """Records left out for one reason; the first of them by number."""

    reason: DropReason
    count: Positive
    record_numbers: tuple[int, ...]


class Overlap(Options):
    """Records of `split` that also occur in `held_out`.

    Attributes:
        kind: `exact`: equal canonical records. `prompt`: equal normalised prompts with another
            answer; exact ones are not counted again.
        record_numbers: The first of them, numbered as in the file of `split`.
    """

    kind: Literal["exact", "prompt"]
    split: str
    held_out: str
    count: NonNegative
    record_numbers: tuple[int, ...]


class SplitManifest(Options):
    """One prepared split.

    Attributes:
        source: Absolute path of the file it came from.
        modified_ns: The file's time of modification when it was read.
        holds_test_records: The file also holds records of the test split: never to be touched
            again.
        format: The record format that was read.
        records_read: Records of this split in the file, before any was dropped.
        records: Records prepared.
        cut: Records whose end was cut off at `max_length`.
        longest_tokens: Tokens of the longest prepared record.
        records_digest: SHA-256 over the digests of the prepared canonical records, in file order.
        tokens_digest: SHA-256 over the prepared tokens, masks and record borders.
    """

    source: str
    size_bytes: NonNegative
    modified_ns: int
    file_sha256: str
    holds_test_records: bool
    format: Literal["prompt_answer", "chat", "text"]
    records_read: Positive
    records: Positive
    dropped: tuple[Dropped, ...]
    cut: NonNegative
    target_tokens: Positive
    input_tokens: Positive
    longest_tokens: Positive
    records_digest: str
    tokens_digest: str


class SealedManifest(Options):
    """The test split: known by a digest, neither tokenised nor copied.

    Attributes:
        source: Absolute path of its file; None when only the digest was given.
        records: None when only the digest was given.
        records_digest: SHA-256 over the digests of its canonical records, in file order.
        overlap_checked: False when only the digest was given: not checkable until opened.
    """

    source: str | None
    records: Positive | None
    records_digest: str
    overlap_checked: bool


class Manifest(Options):
    """Everything that later runs need to know about the prepared data.

    Attributes:
        request_digest: Digest of the request that was answered.
        model_digest: SHA-256 over the model folder's files; a hub id's resolved commit.
        model_commit: The resolved commit of a hub id; None for a folder.
        tokenizer_digest: SHA-256 over the files in `tokenizer/`, its chat template included.
        uses_chat_template: Whether any split was rendered with a chat template.
        pad_token_id: 0 when the tokenizer has none; padding is masked by length, never by id.
        vocabulary_size: Largest token id that training can meet, plus one.
        splits: `train`, `validation` and, where there is one, `retention`.
        notices: What was decided on the way, as sentences.
    """

    version: int = MANIFEST_VERSION
    request_digest: str
    model_digest: str
    model_commit: str | None
    tokenizer_digest: str
    uses_chat_template: bool
    pad_token_id: NonNegative
    vocabulary_size: Positive
    splits: dict[str, SplitManifest]
    test: SealedManifest | None
    overlaps: tuple[Overlap, ...]
    notices: tuple[str, ...]

    @classmethod
    def read(cls, prepared: Path) -> Manifest:
        """Returns the manifest of a prepared folder.

        Raises:
            RunFolderError: There is none, or it is not one of this version.
        """
        file = prepared / "manifest.json"
        hint = "Prepare the data again"
        try:
            manifest = cls.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            fault = Fault(what="the prepared data have no manifest", where=str(file), hint=hint)
            raise RunFolderError(fault) from None
        except ValidationError as error:
            fault = Fault(what="this is no manifest of ours", where=str(file), hint=hint)
            raise RunFolderError(fault) from error
        if manifest.version != MANIFEST_VERSION:
            what = f"the manifest has version {manifest.version}, not {MANIFEST_VERSION}"
            raise RunFolderError(Fault(what=what, where=str(file), hint=hint))
        return manifest

    def to_json(self) -> str:
        """Returns the manifest as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)


def changed_sources(manifest: Manifest) -> tuple[Fault, ...]:
    """Returns one fault per source file that is no longer what was prepared.

    Size and time are compared, and contents only where those differ. A file that holds test
    records is not touched, whatever else it holds.
    """
    checked = {split.source: split for split in manifest.splits.values()}
    faults = (_change(split) for split in checked.values() if not split.holds_test_records)
    return tuple(fault for fault in faults if fault is not None)


def file_sha256(file: Path) -> str:
    """Returns the SHA-256 of a file's contents, hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """Returns the SHA-256 over relative names and contents of `files`, hexadecimal."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file_sha256(file)}\n".encode())
    return digest.hexdigest()


def tokens_digest(split: Path) -> str:
    """Returns the SHA-256 over a prepared split's tokens, masks and record borders.

    Raises:
        OSError: One of its files cannot be read.
    """
    names = ("token_ids.npy", "supervised.npy", "offsets.npy")
    return files_digest(split, (split / name for name in names))


def _change(split: SplitManifest) -> Fault | None:
    file = Path(split.source)
    hint = "Put the file back as it was, or start a study under another name"
    try:
        stat = file.stat()
        if (stat.st_size, stat.st_mtime_ns) == (split.size_bytes, split.modified_ns):
            return None
        if stat.st_size == split.size_bytes and file_sha256(file) == split.file_sha256:
            return None
    except OSError as error:
        what = f"a file that the study was prepared from cannot be read: {error.strerror}"
        return Fault(what=what, where=split.source, hint=hint)
    return Fault(
        what="the file has changed since the study was prepared", where=split.source, hint=hint
    )
