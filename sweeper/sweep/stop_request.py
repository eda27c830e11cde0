"""What ends a run before its study: Ctrl-C, a closed terminal, the study's deadline.

The first Ctrl-C asks the trials to end and be resumable, the second kills them.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

from sweeper.records import Reason


class StopRequest:
    """How often the user has asked the study to stop, and when it is to stop by itself.

    Only a counter and a time: a signal handler that took a lock could wait for the code it
    interrupted.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times = 0
        self._deadline_at: float | None = None

    def ask(self) -> None:
        """Asks once more."""
        self._times += 1

    def ask_once(self) -> None:
        """Asks, unless somebody has: several signals may say the same."""
        self._times = max(1, self._times)

    def stop_in(self, seconds: float) -> None:
        """Sets the deadline, from now."""
        self._deadline_at = self._clock() + seconds

    @property
    def is_asked(self) -> bool:
        """Whether the trials are to end by themselves, resumable."""
        return self._times > 0 or self.is_late

    @property
    def is_by_user(self) -> bool:
        """Whether the user asked."""
        return self._times > 0

    @property
    def is_late(self) -> bool:
        """Whether the deadline is reached."""
        return self._deadline_at is not None and self._clock() >= self._deadline_at

    @property
    def is_urgent(self) -> bool:
        """Whether they are to be killed."""
        return self._times > 1

    @property
    def reason(self) -> Reason | None:
        """Why they are to end; None while they are not."""
        if self._times > 0:
            return Reason.USER_CANCELLED
        return Reason.DEADLINE if self.is_late else None


def _nothing() -> None:
    """Is done where nothing is to be."""


@contextlib.contextmanager
def listening(
    stop: StopRequest, *, on_hang_up: Callable[[], None] = _nothing
) -> Iterator[StopRequest]:
    """Turns SIGINT, SIGTERM and SIGHUP into requests while it is entered; main thread only.

    A closed terminal hangs up more than once, which is never as urgent as a second Ctrl-C. Where
    the hang-up was ignored before, as `nohup` does, it still is.

    Args:
        on_hang_up: Done first when the terminal is closed: it takes no output any more.
    """

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.ask()

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        on_hang_up()
        stop.ask_once()

    handlers = {signal.SIGINT: ask, signal.SIGTERM: ask, signal.SIGHUP: hang_up}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        del handlers[signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
