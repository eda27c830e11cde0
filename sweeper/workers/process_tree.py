"""The processes of a trial: who belongs to it, what they hold, and how all of them end.

A supervisor adopts orphans (`adopt_orphans`), so every process that a trial ever started stays
below its supervisor, whatever session or group it moved to. Where there is no supervisor left,
the environment names the attempt a process belongs to (`marked`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import psutil

MARKER = "SWEEPER_ATTEMPT"
"""The environment variable that holds the resolved folder of the attempt a process belongs to."""

_PR_SET_CHILD_SUBREAPER = 36
_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


def adopt_orphans() -> None:
    """Makes this process the new parent of every descendant that loses its own. Linux only.

    Raises:
        OSError: The kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def descendants(*, besides: Collection[psutil.Process] = ()) -> list[psutil.Process]:
    """Returns the living processes below this one, zombies and `besides` left out."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if process not in besides and _runs(process)]


def marked(attempt: Path) -> list[psutil.Process]:
    """Returns the living processes of this host that belong to the attempt, wherever they are.

    Processes of other users cannot be read and are left out, as is the caller itself.
    """
    mark = str(attempt.resolve())
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _mark(process) == mark and _runs(process)
    ]


def is_below(number: int, folder: Path) -> bool:
    """Says whether a process belongs to an attempt somewhere below the folder."""
    try:
        mark = _mark(psutil.Process(number))
    except _GONE:
        return False
    return mark is not None and Path(mark).is_relative_to(folder.resolve())


def tree_memory_bytes(processes: Iterable[psutil.Process]) -> int:
    """Returns the sum of the proportional set sizes: shared pages count once, by shares."""
    return sum(_proportional_bytes(process) for process in processes)


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to each process; those that are gone, or reuse a process id, are spared."""
    for process in processes:
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            process.send_signal(number)


def collect_orphans(*, besides: int | None) -> None:
    """Takes the exit status of adopted children that ended, so that no zombie stays.

    Args:
        besides: Process id of the child that somebody else waits for.
    """
    for child in psutil.Process().children():
        with contextlib.suppress(ChildProcessError, *_GONE):
            if child.pid != besides and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)


def end_marked(
    attempt: Path, *, grace_seconds: float = 1.0, patience_seconds: float = 30.0
) -> tuple[int, ...]:
    """Ends the processes of an attempt that has no supervisor any more, and waits for it.

    Args:
        attempt: The attempt's folder.
        grace_seconds: Between the request to end and the kill.
        patience_seconds: How long to wait for killed processes to disappear.

    Returns:
        The ids of those that are still there: stuck in the kernel, or not ours to kill.
    """
    began = time.monotonic()
    send(marked(attempt), signal.SIGTERM)
    while (left := marked(attempt)) and time.monotonic() < began + grace_seconds + patience_seconds:
        if time.monotonic() >= began + grace_seconds:
            send(left, signal.SIGKILL)
        time.sleep(0.05)
    return tuple(process.pid for process in left)


def out_of_memory_kills() -> int | None:
    """Returns how many processes this host's kernel killed so far for want of memory."""
    try:
        lines = Path("/proc/vmstat").read_text("ascii").splitlines()
    except OSError:
        return None
    counts = (line.split()[1] for line in lines if line.startswith("oom_kill "))
    return next((int(count) for count in counts), None)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except _GONE:
        return False


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARKER)
    except (*_GONE, psutil.AccessDenied, OSError):
        return None


def _proportional_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except _GONE:
        return 0
    except psutil.AccessDenied:
        return _resident_bytes(process)


def _resident_bytes(process: psutil.Process) -> int:
    """Returns the larger figure, which is all that can be read of another user's process."""
    try:
        return int(process.memory_info().rss)
    except _GONE:
        return 0
