"""Where a seed's cells may run: in slots like the one in which the seed began."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from sweeper.records import Event, Outcome, Started
from sweeper.store.claims import Owner
from sweeper.store.placement import SlotRecord, misfit, why_waiting
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.study.run_options import RunOptions
from sweeper.study.same_environment import CPU, DEVICE, SOME_GPU
from sweeper.trial.surroundings import found_in
from sweeper.workers.gpus import gpus_if_told
from sweeper.workers.known_environment import known_environment
from sweeper.workers.liveness import host_name, is_alive
from sweeper.workers.slots import Slot

_SHOWN_BY_TRIALS = (DEVICE, "cpu_capability", "cuda")
"""Fields that hold for a slot as a whole and that its first trial tells, where nobody knew."""

Known = Mapping[str, Mapping[str, str]]
"""What is known of each slot, by the slot's name."""


def is_on_cpu(environment: Mapping[str, str]) -> bool | None:
    """Says whether a trial ran without a GPU, by what it reported; None if it said nothing."""
    device = environment.get(DEVICE)
    return None if device is None else device == CPU


class Places:
    """What is known of the slots at work. Any method may be called from any slot's thread.

    Args:
        known: Before a trial has run; nothing for a slot of an engine, which has no place.
        anywhere: The user asked to go on elsewhere: every slot is right.
    """

    def __init__(self, known: Known, *, anywhere: bool = False) -> None:
        self._lock = threading.Lock()
        self._known = dict(known)
        self._unfit_seeds: dict[str, frozenset[int]] = {}
        self._anywhere = anywhere

    @property
    def anywhere(self) -> bool:
        """Whether every slot is right for every cell."""
        return self._anywhere

    def known(self, slot: str) -> Mapping[str, str]:
        """Returns what is known of the slot."""
        with self._lock:
            return self._known.get(slot, {})

    def asked_for(self, slot: str) -> Mapping[str, str] | None:
        """Returns what a claim for the slot is measured by; None: nothing."""
        return None if self._anywhere else self.known(slot)

    def of(self, slots: Iterable[Slot]) -> Known:
        """Returns what is known of these slots, by name; nothing where every slot is right."""
        return {slot.name: self.asked_for(slot.name) or {} for slot in slots}

    def fitting_first(self, slots: Sequence[Slot], store: StudyStore) -> tuple[Slot, ...]:
        """Returns the slots, those first in which some waiting cell may start.

        Raises:
            StoreError: The database cannot be used.
        """
        places, host = store.seed_places(), host_name()
        seeds = {cell.seed for cell in store.cells() if cell.status is CellStatus.WAITING}
        known = self.of(slots)

        def is_idle(slot: Slot) -> bool:
            return all(misfit(places.get(seed), known[slot.name], host=host) for seed in seeds)

        return tuple(sorted(slots, key=is_idle))

    def saw(self, slot: str, events: Iterable[Event]) -> None:
        """Takes note of what a trial in the slot reports that it runs on."""
        for event in events:
            if isinstance(event.record, Started):
                self._learn(slot, event.record.environment)

    def ended(self, slot: str, seed: int, outcome: Outcome) -> bool:
        """Takes note of an attempt that found itself in the wrong place; says whether it was one.

        The slot takes no cell of the seed any more, unless it is an engine's.
        """
        found = found_in(outcome)
        with self._lock:
            if found and (known := self._known.get(slot)):
                self._known[slot] = {**known, **found}
                self._unfit_seeds[slot] = self._unfit_seeds.get(slot, frozenset()) | {seed}
        return bool(found)

    def unfit(self, slot: str, cells: Iterable[Cell]) -> frozenset[str]:
        """Returns the cells of seeds that have found the slot to be the wrong place."""
        with self._lock:
            seeds = self._unfit_seeds.get(slot, frozenset())
        return frozenset(cell.id for cell in cells if cell.seed in seeds)

    def _learn(self, slot: str, environment: Mapping[str, str]) -> None:
        with self._lock:
            known = self._known.get(slot)
            if not known:  # an engine's: the next trial may find another place
                return
            news = {
                name: environment[name]
                for name in _SHOWN_BY_TRIALS
                if name in environment and known.get(name, SOME_GPU) == SOME_GPU
            }
            self._known[slot] = {**known, **news}


def places_of(slots: Iterable[Slot], run: RunOptions, *, anywhere: bool) -> Places:
    """Returns what is known of the slots before any trial has run in them."""
    found = tuple(slots)
    gpus = gpus_if_told() if any(slot.device is not None for slot in found) else ()
    known = {slot.name: known_environment(slot, run, gpus, os.environ) for slot in found}
    return Places(known, anywhere=anywhere)


def worth_waiting(store: StudyStore, known: Mapping[str, str] | None) -> bool:
    """Says whether a waiting cell may soon be one for a slot, though it is none now.

    Args:
        known: What is known of the slot; None where every cell is one for it.

    Raises:
        StoreError: The database cannot be used.
    """
    if known is None:
        return False
    places, host = store.seed_places(), host_name()
    return any(
        (found := misfit(places.get(cell.seed), known, host=host)) is not None and found.may_pass
        for cell in store.cells()
        if cell.status is CellStatus.WAITING
    )


def seed_environment(store: StudyStore, seed: int, attempt: tuple[str, int]) -> Mapping[str, str]:
    """Returns what the seed's first attempt ran on, for an attempt at it; nothing as yet.

    Args:
        attempt: Cell and number of the attempt; it expects nothing of itself.

    Raises:
        StoreError: The database cannot be used.
    """
    place = store.seed_places().get(seed)
    if place is None or not place.is_reported or (place.cell, place.attempt) == attempt:
        return {}
    return place.environment


def why_cells_wait(store: StudyStore, slots: Known) -> Mapping[str, str]:
    """Returns, by waiting cell, why none of this host's slots takes it; those that one does not.

    Args:
        slots: Those that are left, with what is known of them.

    Raises:
        StoreError: The database cannot be used.
    """
    there = [_record(name, known) for name, known in slots.items()]
    places = store.seed_places()
    told = {
        cell.cell: why_waiting(places.get(cell.seed), there)
        for cell in store.cells()
        if cell.status is CellStatus.WAITING
    }
    return MappingProxyType({cell: why for cell, why in told.items() if why is not None})


def forget(store: StudyStore, owner: Owner, slots: Collection[str]) -> None:
    """Takes the owner's slots of these names off the record: they take no cell any more.

    Raises:
        StoreError: The database cannot be used.
    """
    key = (owner.host, owner.pid, owner.started_at)
    left = [
        each
        for each in store.slots()
        if (each.host, each.pid, each.started_at) == key and each.slot in slots
    ]
    store.record_slots(owner, {}, instead_of=left)


def gone(store: StudyStore, owner: Owner) -> tuple[SlotRecord, ...]:
    """Returns the slots on record whose owner is dead, or is another host's and runs nothing.

    Args:
        owner: This process, which begins: what is recorded as its own is left from before.

    Raises:
        StoreError: The database cannot be used.
    """
    owners = (live.claim.owner for live in store.live_attempts())
    at_work = {(each.host, each.pid, each.started_at) for each in owners}
    own = (owner.host, owner.pid, owner.started_at)

    def is_gone(slot: SlotRecord) -> bool:
        key = (slot.host, slot.pid, slot.started_at)
        is_living = is_alive(slot.host, slot.pid, slot.started_at)
        return key == own or (key not in at_work and not is_living)

    return tuple(filter(is_gone, store.slots()))


def _record(name: str, known: Mapping[str, str]) -> SlotRecord:
    return SlotRecord(host=host_name(), pid=0, started_at="", slot=name, environment=known)
