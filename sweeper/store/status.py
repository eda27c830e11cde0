"""What becomes of a cell: the closed set of states, and the one rule that moves it on."""

from __future__ import annotations

from enum import StrEnum

from sweeper.records import OUTCOME_OF, OutcomeKind, Reason


class CellStatus(StrEnum):
    """Where a cell stands.

    `waiting` cells may be claimed, `running` ones have an owner, `ended` ones have an outcome,
    `not_run` ones never started because the study ended early.
    """

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    NOT_RUN = "not_run"


def status_after(reason: Reason, *, losses_before: int, max_resumes: int) -> CellStatus:
    """Returns where a cell stands once an attempt at it has ended.

    What the user cancelled, or the machine took back with notice, stays open. What was lost
    stays open until it has been resumed `max_resumes` times. Everything else is final.

    Args:
        losses_before: Earlier attempts at the cell that count as losses (see `counts_as_loss`).
    """
    outcome = OUTCOME_OF[reason]
    if outcome is OutcomeKind.CANCELLED or reason is Reason.PREEMPTED:
        return CellStatus.WAITING
    if outcome is OutcomeKind.LOST and losses_before < max_resumes:
        return CellStatus.WAITING
    return CellStatus.ENDED


COUNTED_LOSSES: tuple[Reason, ...] = tuple(
    reason
    for reason, outcome in OUTCOME_OF.items()
    if outcome is OutcomeKind.LOST and reason is not Reason.PREEMPTED
)
"""Reasons that use up one of a cell's resumes."""
