"""Brings Optuna in step with our own record, from that record alone.

Whatever was interrupted between two writes, Optuna lacks what our tables have, never the other
way round; so this is both the last step of an ending and its repair on the next run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sweeper.records import OutcomeKind, Reason
from sweeper.selection.chain import EntryKind
from sweeper.selection.frozen import OPTUNA_ATTRIBUTE, Frozen
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.sweep.optuna_study import Ending, OptunaStudy
from sweeper.sweep.study_end import is_open
from sweeper.training.watch import VALIDATION


def reconcile(store: StudyStore, optuna_study: OptunaStudy) -> None:
    """Brings every cell's Optuna trial in step with the record, and the frozen choice.

    Raises:
        StoreError: The database cannot be used; what is missing is added the next time.
    """
    with store.turn():
        for cell in store.cells():
            if optuna_study.knows(cell.cell):  # if not, another worker has just added it
                bring_in_step(store, optuna_study, cell)
        link = store.chain.last(EntryKind.SELECTION_FROZEN)
        if link is not None:
            choice = Frozen.from_facts(link.facts).mirrored(link.digest)
            optuna_study.mirror_choice(OPTUNA_ATTRIBUTE, choice)


def bring_in_step(store: StudyStore, optuna_study: OptunaStudy, cell: CellRecord) -> None:
    """Does it for one cell: started, evaluations, and its ending if it has ended for good.

    A cell that never started stays queued, and one that was lost or cancelled stays running, until
    the study is closed. One that was opened again gets a trial of its own.

    Raises:
        StoreError: The database cannot be used.
    """
    if is_open(cell) and optuna_study.has_ended(cell.cell):
        optuna_study.queue_again(cell.cell)
        store.link_optuna({cell.cell: optuna_study.numbers()[cell.cell]})
    ends = _ends(cell, is_closed=store.is_closed())
    if (cell.attempts == 0 and not ends) or optuna_study.has_ended(cell.cell):
        return
    optuna_study.start(cell.cell)
    for index, loss in _validation_losses(store, cell.cell).items():
        optuna_study.report(cell.cell, index=index, validation_loss=loss)
    if ends:
        optuna_study.end(cell.cell, _ending(store, cell))


def _ends(cell: CellRecord, *, is_closed: bool) -> bool:
    """Says whether the cell has ended as Optuna sees it: what is cancelled may go on until then."""
    if cell.status is CellStatus.NOT_RUN:
        return is_closed
    return cell.status is CellStatus.ENDED and (
        is_closed or cell.outcome is not OutcomeKind.CANCELLED
    )


def _validation_losses(store: StudyStore, cell: str) -> dict[int, float]:
    """Returns the trial's finite validation losses by grid index, over all its attempts."""
    return {
        int(str(row["grid_index"])): float(str(row["loss"]))
        for row in store.evaluations(cell)
        if row["split"] == VALIDATION and row["loss"] is not None
    }


def _ending(store: StudyStore, cell: CellRecord) -> Ending:
    attempts = store.attempts(cell.cell)
    evidence = json.loads(str(attempts[-1]["evidence"])) if attempts else {}
    (trial,) = store.trials(cell.cell)
    loss = trial["validation_loss"]  # at the declared checkpoint, as in every table
    if cell.outcome is OutcomeKind.COMPLETED and loss is None:
        return _without_loss(evidence)
    return Ending(
        outcome=cell.outcome or CellStatus.NOT_RUN,
        reason=cell.reason or CellStatus.NOT_RUN,
        detail=cell.detail or "",
        evidence={str(name): str(value) for name, value in evidence.items()},
        validation_loss=loss if isinstance(loss, float) else None,
    )


def _without_loss(evidence: Mapping[str, object]) -> Ending:
    """Returns how a completed cell counts whose history lacks the endpoint: as without a result."""
    return Ending(
        outcome=OutcomeKind.FAILED,
        reason=Reason.RESULT_MISSING,
        detail="it completed, but its last validation loss is not on record",
        evidence={str(name): str(value) for name, value in evidence.items()},
        validation_loss=None,
    )
