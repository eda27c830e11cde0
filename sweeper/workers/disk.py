"""What a folder holds and what its file system has left. Standard library only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """Returns the sizes of all files below the folder; links are not followed.

    Files that disappear meanwhile, and a folder that is not there, count for nothing.
    """
    total = 0
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return 0
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            total += folder_bytes(Path(entry.path))
        else:
            total += _file_bytes(entry)
    return total


def free_bytes(folder: Path) -> int | None:
    """Returns what this user may still write where the folder is, or is to be.

    None where the file system does not say.
    """
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None


def _file_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
