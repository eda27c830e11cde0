"""What identifies saved weights: a digest over all files of their folder. Torch-free."""

from __future__ import annotations

import hashlib
from pathlib import Path


def folder_digest(folder: Path) -> str:
    """Returns the SHA-256 over relative names and contents of all files, in order of names."""
    sha = hashlib.sha256()
    for name, file in sorted((p.relative_to(folder).as_posix(), p) for p in _files(folder)):
        sha.update(f"{name}\0{_file_digest(file)}\n".encode())
    return sha.hexdigest()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
