"""Which slot may take a cell: one alone at first, then all of them.

Fifteen trials of a study that cannot work would fail one like the other. The first one runs
alone until its evaluation before the first update and its first update are recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sweeper.records import Evaluation, Event, Outcome, OutcomeKind, Resumed, Update

_SHOWS_THAT_TRIALS_RUN = frozenset({OutcomeKind.COMPLETED, OutcomeKind.STOPPED})


class Turns:
    """Shared by the slots' threads; every method may be called from any of them.

    Args:
        proven: Whether a trial of the study has run before.
    """

    def __init__(self, *, proven: bool) -> None:
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._gone: set[str] = set()
        self._evaluated = proven
        self._updated = proven

    @property
    def proven(self) -> bool:
        """Whether the slots may run side by side."""
        return self._evaluated and self._updated

    def prove(self) -> None:
        """Takes note that a trial of the study has run, on whatever host."""
        self._evaluated = self._updated = True

    @property
    def anyone_busy(self) -> bool:
        """Whether a slot has taken its turn and not given it back."""
        return bool(self._busy)

    def others_busy(self, slot: str) -> bool:
        """Says whether a slot besides this one has taken its turn and not given it back."""
        with self._lock:
            return bool(self._busy - {slot})

    def take(self, slot: str) -> bool:
        """Lets the slot look for a cell; False while another one runs the first trial."""
        with self._lock:
            if self._busy and not self.proven:
                return False
            self._busy.add(slot)
            return True

    def give_back(self, slot: str) -> None:
        """Ends the slot's turn."""
        with self._lock:
            self._busy.discard(slot)

    def leave(self, slot: str) -> None:
        """Takes note that the slot will look for no cell any more."""
        with self._lock:
            self._gone.add(slot)

    def still_here(self, slots: Iterable[str]) -> frozenset[str]:
        """Returns those of the slots that have not left."""
        with self._lock:
            return frozenset(slots) - self._gone

    def saw(self, events: Iterable[Event]) -> None:
        """Takes note of what a trial reported."""
        for event in events:
            if isinstance(event.record, Evaluation):
                self._evaluated |= event.record.index == 0
            elif isinstance(event.record, Resumed):
                self._evaluated = True  # by the attempt whose checkpoint it goes on from
            elif isinstance(event.record, Update):
                self._updated |= event.record.ran

    def ended(self, outcome: Outcome) -> None:
        """Takes note of an ending; one that is the trial's own doing proves that trials run."""
        if outcome.kind in _SHOWS_THAT_TRIALS_RUN:
            self._evaluated = self._updated = True
        elif not self.proven:
            self._evaluated = self._updated = False
