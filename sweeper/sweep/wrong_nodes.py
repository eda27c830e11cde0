"""Cells to which an engine gave a node that is not like the one that their seed began on.

Such an attempt gives the node back at once, and the cell waits for another one. An engine that has
nothing else to offer is asked at longer and longer intervals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sweeper.records import Outcome
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.same_environment import was_misplaced

FIRST_PAUSE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 3600.0


class WrongNodes:
    """Shared by the lanes' threads; every method may be called from any of them.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._in_a_row: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def ended(self, cell: str, outcome: Outcome) -> str | None:
        """Takes note of the end of a job; returns the sentence that lets its cell wait, if it does.

        The pause before the next one doubles each time in a row.
        """
        with self._lock:
            if not was_misplaced(outcome.evidence):
                self._in_a_row.pop(cell, None)
                self._until.pop(cell, None)
                return None
            times = self._in_a_row.get(cell, 0)
            self._in_a_row[cell] = times + 1
            pause_seconds = min(FIRST_PAUSE_SECONDS * 2**times, LONGEST_PAUSE_SECONDS)
            self._until[cell] = self._clock() + pause_seconds
        return (
            f"{cell}: {outcome.detail}; it is handed over again in {pause_seconds:.0f} s. "
            "run.launcher can ask the engine for such nodes only"
        )

    def held_back(self, store: StudyStore) -> frozenset[str]:
        """Returns the waiting cells that are not to be handed over yet.

        Raises:
            StoreError: The database cannot be used.
        """
        with self._lock:
            held = {cell for cell, until in self._until.items() if until > self._clock()}
        if not held:
            return frozenset()
        waiting = {cell.cell for cell in store.cells() if cell.status is CellStatus.WAITING}
        return frozenset(held & waiting)
