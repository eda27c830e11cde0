"""Files that appear whole: a reader sees the old text or the new one. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str, *, durable: bool) -> None:
    """Replaces `file` by `text` in one go; `durable` also waits for the disk.

    Raises:
        OSError: The disk is full or the folder is gone.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())
    temporary.replace(file)
    if durable:
        _flush_folder(file.parent)


def _flush_folder(folder: Path) -> None:
    """Brings the new name to the disk; the file's contents are there already."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
