"""Files that appear whole: a reader sees the old content or the new one, never a part.

Owns: writing beside the target, bringing it to the disk, renaming, adding lines. Refuses to know:
what is written, and what a full disk means to the caller. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
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


def add_lines(file: Path, missing: Callable[[bytes], Iterable[str]]) -> None:
    """Adds lines at the end of a file, and waits until they are on the disk; one at a time may.

    A last line that was never finished is dropped.

    Args:
        missing: Called with what the file holds, while nobody else may add to it.

    Raises:
        OSError: They cannot be written; what was there before is.
    """
    with file.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        content = file.read_bytes()
        text = "".join(f"{line}\n" for line in missing(content))
        if not text:
            return
        stream.truncate(content.rfind(b"\n") + 1)
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())
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
