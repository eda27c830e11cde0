"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.files import bring_to_disk, bring_tree_to_disk


@contextmanager
def whole_folder(out: Path, *, mark: str) -> Iterator[Path]:
    """Gives a hidden folder beside `out` and, once it is filled, puts it in the place of `out`.

    Everything is flushed to the disk before it is renamed. On an error nothing is left behind.

    Args:
        mark: A file that an existing folder must hold to be replaced.

    Raises:
        RunFolderError: It cannot be written, or `out` holds something else.
    """
    partial = out.with_name(f".{out.name}-{os.getpid()}")
    try:
        _check_replaceable(out, mark)
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        bring_tree_to_disk(partial)
        _put(partial, out)
    except OSError as error:
        what = f"the folder cannot be written: {error.strerror}"
        raise RunFolderError(
            Fault(
                what=what,
                where=str(error.filename or out),
                hint="Check its permissions and the free space",
            )
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_replaceable(out: Path, mark: str) -> None:
    if not out.exists() or (out / mark).is_file() or (out.is_dir() and not any(out.iterdir())):
        return
    what = "there is something here that is not prepared data"
    raise RunFolderError(
        Fault(what=what, where=str(out), hint="Move it away, or choose another folder")
    )


def _put(partial: Path, out: Path) -> None:
    """Renames; a folder already there is moved aside first and deleted last."""
    old = partial.with_name(f"{partial.name}-old")
    if out.exists():
        out.rename(old)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
    bring_to_disk(out.parent)
