"""What other processes see of this one: its command line and its environment.

Both are shown from the memory in which the kernel left them when the program was started, so a
fork that takes up work of its own goes on looking like its parent until it names another place.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_PR_SET_MM = 35
_PR_SET_MM_MAP = 14
_NO_EXECUTABLE = 0xFFFFFFFF
"""Leaves the program's file as it is."""


def appear_as(argv: Iterable[str], environment: Mapping[str, str]) -> None:
    """Shows this command line and this environment in /proc, for good. Linux only.

    Raises:
        OSError: The kernel cannot do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    words = _block(argv)
    variables = _block(f"{name}={value}" for name, value in environment.items())
    shown = libc.malloc(ctypes.c_size_t(len(words) + len(variables)))  # never freed
    if shown is None:
        raise MemoryError
    ctypes.memmove(shown, words + variables, len(words) + len(variables))
    layout = _layout()
    layout.arg_start, layout.arg_end = shown, shown + len(words)
    layout.env_start, layout.env_end = layout.arg_end, layout.arg_end + len(variables)
    place, size = ctypes.byref(layout), ctypes.sizeof(layout)
    layout.brk = libc.sbrk(0)  # last: nothing is allocated between here and the call
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, place, size, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this kernel does not rename processes: {os.strerror(number)}")
    assert libc.sbrk(0) == layout.brk, "the heap has not moved meanwhile"


class _Layout(ctypes.Structure):
    """The kernel's `struct prctl_mm_map`, see prctl(2)."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data")),
        *((name, ctypes.c_uint64) for name in ("start_brk", "brk", "start_stack")),
        *((name, ctypes.c_uint64) for name in ("arg_start", "arg_end", "env_start", "env_end")),
        ("auxv", ctypes.c_uint64),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


def _layout() -> _Layout:
    """Returns the layout of this process, but for its heap's end."""
    text = Path("/proc/self/stat").read_text("ascii", errors="replace")
    fields = text.rpartition(")")[2].split()

    def field(number: int) -> int:
        """Returns a field by its number in proc(5); the first after the name is the third."""
        return int(fields[number - 3])

    return _Layout(
        start_code=field(26),
        end_code=field(27),
        start_data=field(45),
        end_data=field(46),
        start_brk=field(47),
        start_stack=field(28),
        auxv=0,
        auxv_size=0,
        exe_fd=_NO_EXECUTABLE,
    )


def _block(entries: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(entry) + b"\0" for entry in entries)
