"""How a trial learns that it is to end: a flag for an orderly end, a kill when left alone.

It loads next to nothing, so that both are in place before the long imports begin.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from types import FrameType

import psutil


class Interruption:
    """Set by signal 15 and read after every window."""

    def __init__(self) -> None:
        self._asked = False

    def listen(self) -> None:
        """Takes over signal 15 of this process; to be called from its main thread."""
        signal.signal(signal.SIGTERM, self._ask)

    def is_asked(self) -> bool:
        """Says whether an orderly end was asked for."""
        return self._asked

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


def end_without_parent(descriptor: int) -> None:
    """Makes this process end, with all its descendants, when the pipe's other end closes.

    The supervisor holds that end, so it closes whatever the supervisor dies of. Parent-death
    signals are no substitute: they fire on the death of the starting thread.

    Args:
        descriptor: Standard input. Anything but a pipe, for instance a terminal, is not watched.
    """
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        watch = threading.Thread(
            target=_wait_and_end, args=(descriptor,), name="parent watch", daemon=True
        )
        watch.start()


def _wait_and_end(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
