"""Files that appear whole: a reader sees the old content or the new one, never a part.

Owns: writing beside the target, bringing it to the disk, renaming. Refuses to know: what is
written, and what a full disk means to the caller. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Replaces `file` by `content` in one go; text is written as UTF-8.

    Args:
        durable: Whether to wait until content and name are on the disk.

    Raises:
        OSError: The disk is full, or the folder is gone or not to be written; nothing is left.
    """
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if durable:
        bring_to_disk(file.parent)


def bring_to_disk(path: Path) -> None:
    """Waits until a file's content, or a folder's own list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def bring_tree_to_disk(folder: Path) -> None:
    """Waits until a folder and everything in it are on the disk."""
    for path in [*sorted(folder.rglob("*")), folder]:
        bring_to_disk(path)
