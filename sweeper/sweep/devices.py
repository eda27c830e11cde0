"""What kind of device a trial runs on: one that has begun goes on where it began."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.store.reading import Start
from sweeper.sweep.study_run import StudyRun
from sweeper.workers.slots import CPU, Slot


def is_on_cpu(environment: Mapping[str, str]) -> bool | None:
    """Says whether a trial ran without a GPU, by what it reported; None if it said nothing."""
    device = environment.get("device")
    return None if device is None else device == CPU


def fits(start: Start, slot: Slot) -> bool:
    """Says whether the slot is of the kind that a trial began on."""
    on_cpu = is_on_cpu(start.environment)
    return on_cpu is None or on_cpu == (slot.device is None)


def begun_elsewhere(run: StudyRun, slot: Slot) -> frozenset[str]:
    """Returns the cells that have begun on another kind of device than the slot's.

    Empty where the user asked to go on elsewhere.

    Raises:
        StoreError: The database cannot be used.
    """
    if run.resume_elsewhere:
        return frozenset()
    return frozenset(start.cell for start in run.store.starts() if not fits(start, slot))
