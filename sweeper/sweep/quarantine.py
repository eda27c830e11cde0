"""Device errors: what they mean for the cell and for the slot.

A cell that met one goes on on another device, where there is one. A device that has several in a
row is set aside for the rest of the run, with all slots that share it. A device whose memory did
not come back after a trial had one too, though the trial itself had not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from sweeper.records import Outcome, Reason
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.workers.ending import MEMORY_LEFT

STAND_BACK_SECONDS = 2.0
"""For another slot to take a cell, before the one that lost it may take it again."""


class DeviceFaults:
    """Shared by the slots' threads; every method may be called from any of them.

    Args:
        allowed: Device errors in a row with which a slot is set aside.
        devices: The device of each slot that shares one with other slots, by the slot's name; a
            slot that is left out has its own.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        allowed: int,
        devices: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._allowed = allowed
        self._devices = devices
        self._clock = clock
        self._in_a_row: dict[str, int] = {}
        self._lost: dict[str, dict[str, float]] = {}

    def ended(self, slot: str, cell: str, outcome: Outcome) -> str | None:
        """Takes note of an ending; returns the sentence that sets the slot aside, if it does."""
        device, is_lost = self._device(slot), outcome.reason is Reason.DEVICE_ERROR
        error = outcome.detail if is_lost else outcome.evidence.get(MEMORY_LEFT)
        with self._lock:
            if error is None:
                self._in_a_row[device] = 0
                return None
            self._in_a_row[device] = count = self._in_a_row.get(device, 0) + 1
            if is_lost:
                self._lost.setdefault(device, {})[cell] = self._clock()
        if count < self._allowed:
            return None
        errors = "1 device error" if count == 1 else f"{count} device errors in a row"
        others = [f"; so is {s}" for s, d in self._devices.items() if d == device and s != slot]
        return f"slot {slot} is set aside after {errors}, the last: {error}{''.join(others)}"

    def is_set_aside(self, slot: str) -> bool:
        """Says whether the slot is to claim nothing more."""
        with self._lock:
            return self._in_a_row.get(self._device(slot), 0) >= self._allowed

    def _device(self, slot: str) -> str:
        return self._devices.get(slot, slot)

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
        mine = self._device(slot)
        devices = {self._device(other) for other in others_here} - {mine}
        with self._lock:
            recent = self._clock() - STAND_BACK_SECONDS
            lost = {
                cell
                for cell, at in self._lost.get(mine, {}).items()
                if (others_busy or at > recent)
                and any(cell not in self._lost.get(device, {}) for device in devices)
            }
        if not lost:
            return frozenset()
        waiting = {cell.cell for cell in store.cells() if cell.status is CellStatus.WAITING}
        return frozenset(lost & waiting)
