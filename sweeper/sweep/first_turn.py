"""The first trial runs alone, whichever coordinator has it, and an early end is everybody's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.sweep.early_end import baseline_failure, first_trial_failure, is_proven


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTurn:
    """Whose turn it is in a study of which no trial has shown that trials run.

    Attributes:
        is_over: One has, since.
        is_taken: A trial runs, which may.
        begun: Attempts that have begun so far, whoever began them.
    """

    is_over: bool
    is_taken: bool
    begun: int


def first_turn(store: StudyStore, *, rule: Literal["baseline_failed", "never"]) -> FirstTurn:
    """Returns whose turn it is, after the study was ended early if that is what an ending asks for.

    Raises:
        StoreError: The database cannot be used.
    """
    cells = store.cells()
    turn = FirstTurn(
        # read after the cells: what had ended by then is in it
        is_over=is_proven(store.trials()) or any(_has_trained(store, cell) for cell in cells),
        is_taken=any(cell.status is CellStatus.RUNNING for cell in cells),
        begun=sum(cell.attempts for cell in cells),
    )
    if not turn.is_over:
        settle(store, rule=rule)
    return turn


def _has_trained(store: StudyStore, cell: CellRecord) -> bool:
    """Says whether the attempt that runs has made an update; it was evaluated before that."""
    return cell.status is CellStatus.RUNNING and any(
        row["ran"] and row["attempt"] == cell.attempts for row in store.updates(cell.cell)
    )


def settle(store: StudyStore, *, rule: Literal["baseline_failed", "never"]) -> None:
    """Ends the study early if an ending on record asks for it, and nobody came to do so.

    Raises:
        StoreError: The database cannot be used.
    """
    why = first_trial_failure(store.trials()) or baseline_failure(store.cells(), rule=rule)
    if why is not None and store.study().ended_why is None:
        store.close_not_run(why)
