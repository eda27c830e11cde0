"""Snapshots on disk: whole, marked as whole, checked by their digests, and never trusted blindly.

A checkpoint is a folder named by its last window. It is written under a temporary name, brought to
the disk and renamed; its mark, `complete.json`, is written last and holds the SHA-256 of every file
beside it. A folder without a mark, or with a file that is not what the mark says, is no checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from sweeper.files import bring_to_disk, bring_tree_to_disk
from sweeper.records import CheckpointMade
from sweeper.training.snapshot import Snapshot

FORMAT = 1
_TENSORS = "tensors.safetensors"
_FACTS = "state.json"
_MARK = "complete.json"
_PARTIAL = ".partial"


class DamagedCheckpoint(Exception):
    """A folder that is no checkpoint, or not the one that was written; says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A checkpoint that can be gone on from.

    Attributes:
        folder: Where it is.
        sha256: Digest of its mark, and so of all that it holds.
        owner: What the writer said it belongs to, by name.
    """

    folder: Path
    sha256: str
    snapshot: Snapshot
    owner: Mapping[str, str]

    @property
    def window(self) -> int:
        """The last window that it holds."""
        return self.snapshot.exposure.windows

    @property
    def target_tokens_read(self) -> int:
        """Target tokens of all windows up to that one."""
        return self.snapshot.exposure.target_tokens_read


def write_checkpoint(root: Path, snapshot: Snapshot, *, owner: Mapping[str, str]) -> CheckpointMade:
    """Writes the snapshot below `root`, or nothing; replaces one of the same window.

    Args:
        root: Folder of all checkpoints of an attempt; its own path in the record is its name.
        owner: What it belongs to, by name; read back as it is.

    Raises:
        OSError: It cannot be written, for instance because the disk is full; nothing is left.
    """
    window = snapshot.exposure.windows
    folder = root / f"{window:08d}"
    partial = folder.with_name(folder.name + _PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        size = _write_files(partial, snapshot, owner)
        bring_tree_to_disk(partial)
        if folder.exists():
            remove_checkpoint(folder)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    bring_to_disk(root)
    bring_to_disk(root.parent)  # where `root` may be a new name
    return CheckpointMade(
        window=window,
        path=f"{root.name}/{folder.name}",
        sha256=_digest((folder / _MARK).read_bytes()),
        size_bytes=size,
    )


def read_checkpoint(folder: Path) -> Found:
    """Returns the checkpoint in the folder once every byte of it has been checked.

    Raises:
        DamagedCheckpoint: It is not whole, or not what was written.
    """
    mark = _read(folder / _MARK, "it has no mark that it is complete")
    try:
        entries = json.loads(mark)
        digests, version = dict(entries["sha256"]), entries["format"]
        owner = {str(name): str(value) for name, value in entries["owner"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpoint(f"{_MARK} is not readable: {error!r}") from error
    if version != FORMAT:
        raise DamagedCheckpoint(f"its format is {version}; this version reads {FORMAT}")
    for name in (_TENSORS, _FACTS):
        _check(folder / name, digests.get(name))
    try:
        snapshot = Snapshot(
            tensors=load_file(folder / _TENSORS),
            facts=json.loads((folder / _FACTS).read_bytes()),
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise DamagedCheckpoint(f"it cannot be read: {error}") from error
    return Found(folder=folder, sha256=_digest(mark), snapshot=snapshot, owner=owner)


def checkpoint_folders(root: Path) -> list[Path]:
    """Returns the folders of all checkpoints below `root`, the newest first."""
    if not root.is_dir():
        return []
    return sorted((p for p in root.iterdir() if p.name.isdigit()), reverse=True)


def newest_valid(root: Path) -> tuple[Found | None, list[str]]:
    """Returns the newest checkpoint that is valid, and a sentence for each that was passed over."""
    complaints: list[str] = []
    for folder in checkpoint_folders(root):
        try:
            return read_checkpoint(folder), complaints
        except DamagedCheckpoint as error:
            complaints.append(f"checkpoint {folder} is passed over: {error}")
    return None, complaints


def keep_newest(root: Path, count: int) -> None:
    """Removes all checkpoints but the newest ones."""
    for folder in checkpoint_folders(root)[count:]:
        remove_checkpoint(folder)


def remove_checkpoint(folder: Path) -> None:
    """Removes a checkpoint, its mark first, so that half a removal leaves none that seems whole."""
    (folder / _MARK).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: Path, snapshot: Snapshot, owner: Mapping[str, str]) -> int:
    tensors = {name: tensor.contiguous() for name, tensor in snapshot.tensors.items()}
    save_file(tensors, folder / _TENSORS)
    # Remembered losses may be NaN or infinite; json writes and reads them as they are.
    facts = json.dumps(dict(snapshot.facts), sort_keys=True)
    (folder / _FACTS).write_text(facts, encoding="utf-8")
    files = [folder / _TENSORS, folder / _FACTS]
    mark = {
        "format": FORMAT,
        "owner": dict(owner),
        "sha256": {file.name: _file_digest(file) for file in files},
    }
    (folder / _MARK).write_text(json.dumps(mark, indent=1, sort_keys=True), encoding="utf-8")
    return sum(file.stat().st_size for file in files)


def _check(file: Path, digest: str | None) -> None:
    try:
        found = _file_digest(file)
    except FileNotFoundError:
        raise DamagedCheckpoint(f"{file.name} is missing") from None
    except OSError as error:
        raise DamagedCheckpoint(f"{file.name} cannot be read: {error.strerror}") from error
    if found != digest:
        raise DamagedCheckpoint(f"{file.name} is not what was written (SHA-256 differs)")


def _read(file: Path, missing: str) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise DamagedCheckpoint(missing) from None
    except OSError as error:
        raise DamagedCheckpoint(f"{file.name} cannot be read: {error.strerror}") from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
