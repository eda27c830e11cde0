"""What a trial is busy with, and how long it has been with each. Torch-free."""

from __future__ import annotations

from collections.abc import Callable

from sweeper.records import Phase, PhaseBegun, Record


class Phases:
    """Turns from one kind of work to the next; every turn is reported with the seconds so far.

    Args:
        emit: Takes the reports.
        clock: Monotonic seconds.
    """

    def __init__(self, emit: Callable[[Record], None], clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._phase: Phase | None = None
        self._since = 0.0
        self._seconds: dict[str, float] = {}

    def begin(self, phase: Phase) -> None:
        """Ends what was going on and begins this; going on with the same work is no turn."""
        if phase is self._phase:
            return
        now = self._clock()
        if self._phase is not None:
            name = self._phase.value
            self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._phase, self._since = phase, now
        self._emit(PhaseBegun(phase=phase, seconds=dict(self._seconds)))
