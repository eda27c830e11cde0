"""Two runs of the same trial go to two slots, where there are two."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sweeper.store.status import CellStatus
from sweeper.study.plan import Cell
from sweeper.sweep.study_run import StudyRun


def left_to_others(run: StudyRun, slot: str) -> frozenset[str]:
    """Returns the waiting cells that this slot is not to take while another is at work.

    Raises:
        StoreError: The database cannot be used.
    """
    elsewhere = meant_for_another_slot(
        run.plan.cells,
        ran_in=_ran_in(run),
        slot=slot,
        slots=run.turns.still_here(run.slots),
    )
    if not elsewhere:
        return elsewhere
    waiting = {cell.cell for cell in run.store.cells() if cell.status is CellStatus.WAITING}
    return elsewhere & waiting


def meant_for_another_slot(
    cells: Iterable[Cell], *, ran_in: Mapping[str, str], slot: str, slots: Collection[str]
) -> frozenset[str]:
    """Returns the cells that belong in another slot than this one, which ran their counterpart.

    The repeat of a cell also shows what running it elsewhere changes, whichever of the two comes
    first. Without another slot nothing does.

    Args:
        ran_in: The slot of each cell's latest attempt, for cells that were begun.
        slots: The names of all slots at work.
    """
    if not set(slots) - {slot}:
        return frozenset()
    pairs = [(cell.id, cell.repeats) for cell in cells if cell.repeats is not None]
    return frozenset(
        mine
        for pair in pairs
        for mine, counterpart in (pair, pair[::-1])
        if ran_in.get(counterpart) == slot
    )


def _ran_in(run: StudyRun) -> dict[str, str]:
    """Returns the slot of the latest attempt at each repeat and at the cell that it repeats."""
    paired = {cell for each in run.plan.cells if each.repeats for cell in (each.id, each.repeats)}
    attempts = {cell: run.store.attempts(cell) for cell in sorted(paired)}
    return {cell: str(rows[-1]["slot"]) for cell, rows in attempts.items() if rows}
