"""Device errors: what they mean for the cell and for the slot.

A cell that met one goes on in another slot, where there is one. A slot that has several in a row is
set aside for the rest of the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from sweeper.records import Outcome, Reason
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore

STAND_BACK_SECONDS = 2.0
"""For another slot to take a cell, before the one that lost it may take it again."""


class DeviceFaults:
    """Shared by the slots' threads; every method may be called from any of them.

    Args:
        allowed: Device errors in a row with which a slot is set aside.
        clock: Monotonic seconds.
    """

    def __init__(self, *, allowed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._allowed = allowed
        self._clock = clock
        self._in_a_row: dict[str, int] = {}
        self._lost: dict[str, dict[str, float]] = {}

    def ended(self, slot: str, cell: str, outcome: Outcome) -> str | None:
        """Takes note of an ending; returns the sentence that sets the slot aside, if it does."""
        with self._lock:
            if outcome.reason is not Reason.DEVICE_ERROR:
                self._in_a_row[slot] = 0
                return None
            self._in_a_row[slot] = count = self._in_a_row.get(slot, 0) + 1
            self._lost.setdefault(slot, {})[cell] = self._clock()
        if count < self._allowed:
            return None
        errors = "1 device error" if count == 1 else f"{count} device errors in a row"
        return f"slot {slot} is set aside after {errors}, the last: {outcome.detail}"

    def is_set_aside(self, slot: str) -> bool:
        """Says whether the slot is to claim nothing more."""
        with self._lock:
            return self._in_a_row.get(slot, 0) >= self._allowed

    def left_to_others(
        self, slot: str, store: StudyStore, *, others_here: Collection[str], others_busy: bool
    ) -> frozenset[str]:
        """Returns the waiting cells that the slot lost and is to leave to another one for now.

        When no other one is busy, and none has taken the cell, the slot may try again.

        Args:
            others_here: The other slots at work.
            others_busy: Whether one of them is running a trial.

        Raises:
            StoreError: The database cannot be used.
        """
        with self._lock:
            recent = self._clock() - STAND_BACK_SECONDS
            lost = {
                cell
                for cell, at in self._lost.get(slot, {}).items()
                if (others_busy or at > recent)
                and any(cell not in self._lost.get(other, {}) for other in others_here)
            }
        if not lost:
            return frozenset()
        waiting = {cell.cell for cell in store.cells() if cell.status is CellStatus.WAITING}
        return frozenset(lost & waiting)
