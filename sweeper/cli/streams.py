"""The standard streams of the process as they are given to it: one may be missing, or full.

Needed before anything is loaded, which takes a second, so it imports nothing of ours.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def make_streams_safe() -> None:
    """Lets missing standard streams lead nowhere, and standard error never fail.

    Without the first, the next file that is opened gets the free descriptor, and whatever is said
    is written into it. A result that standard output cannot take remains an error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere(mode))
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Remarks(sys.stderr.fileno(), "w", closefd=False)),
        encoding=sys.stderr.encoding,
        errors=sys.stderr.errors,
        line_buffering=True,
    )


def _nowhere(mode: str) -> IO[str]:
    """Returns a stream on the lowest descriptor that is free, which child processes share."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(descriptor, True)
    return open(descriptor, mode, encoding="utf-8", closefd=False)


class _Remarks(io.FileIO):
    """A file for what is said beside the result: what it cannot take is left out."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes
