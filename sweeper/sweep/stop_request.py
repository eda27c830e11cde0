"""Ctrl-C: the first asks the trials to end and be resumable, the second kills them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class StopRequest:
    """How often the user has asked the study to stop.

    Only a counter: a signal handler that took a lock could wait for the code it interrupted.
    """

    def __init__(self) -> None:
        self._times = 0

    def ask(self) -> None:
        """Asks once more."""
        self._times += 1

    @property
    def is_asked(self) -> bool:
        """Whether the trials are to end by themselves, resumable."""
        return self._times > 0

    @property
    def is_urgent(self) -> bool:
        """Whether they are to be killed."""
        return self._times > 1


@contextlib.contextmanager
def listening(stop: StopRequest) -> Iterator[StopRequest]:
    """Turns SIGINT and SIGTERM into requests while it is entered; main thread only."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
