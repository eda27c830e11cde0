"""Brings Optuna in step with our own record, from that record alone.

Whatever was interrupted between two writes, Optuna lacks what our tables have, never the other
way round; so this is both the last step of an ending and its repair on the next run.
"""

from __future__ import annotations

import json

from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.sweep.optuna_study import Ending, OptunaStudy
from sweeper.training.watch import VALIDATION


def reconcile(store: StudyStore, optuna_study: OptunaStudy) -> None:
    """Brings every cell's Optuna trial in step with the record.

    Raises:
        StoreError: The database cannot be used; what is missing is added the next time.
    """
    for cell in store.cells():
        bring_in_step(store, optuna_study, cell)


def bring_in_step(store: StudyStore, optuna_study: OptunaStudy, cell: CellRecord) -> None:
    """Does it for one cell: started, evaluations, and its ending if it has ended for good.

    A cell that never started stays queued; one that was lost or cancelled stays running.

    Raises:
        StoreError: The database cannot be used.
    """
    if cell.attempts == 0 or optuna_study.has_ended(cell.cell):
        return
    optuna_study.start(cell.cell)
    for index, loss in _validation_losses(store, cell.cell).items():
        optuna_study.report(cell.cell, index=index, validation_loss=loss)
    if cell.status is CellStatus.ENDED:
        optuna_study.end(cell.cell, _ending(store, cell))


def _validation_losses(store: StudyStore, cell: str) -> dict[int, float]:
    """Returns the trial's finite validation losses by grid index, over all its attempts."""
    return {
        int(str(row["grid_index"])): float(str(row["loss"]))
        for row in store.evaluations(cell)
        if row["split"] == VALIDATION and row["loss"] is not None
    }


def _ending(store: StudyStore, cell: CellRecord) -> Ending:
    assert cell.outcome is not None
    assert cell.reason is not None
    evidence = json.loads(str(store.attempts(cell.cell)[-1]["evidence"]))
    (trial,) = store.trials(cell.cell)
    loss = trial["validation_loss"]  # at the declared checkpoint, as in every table
    return Ending(
        outcome=cell.outcome,
        reason=cell.reason,
        detail=cell.detail or "",
        evidence={str(name): str(value) for name, value in evidence.items()},
        validation_loss=loss if isinstance(loss, float) else None,
    )
