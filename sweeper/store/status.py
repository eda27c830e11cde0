"""What becomes of a cell: the closed set of states, and the one rule that moves it on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """One attempt at a cell, as far as it matters for whether there is to be another.

    Attributes:
        reason: Why it ended; None while it has not.
        began_after_window: The last window of the checkpoint that it went on from, 0 without one;
            None if it did not get so far.
        checkpoint_window: The last window of the newest checkpoint that it made, if any.
        misplaced: Whether it was not where its seed began, and ended before it did anything.
    """

    reason: Reason | None
    began_after_window: int | None = None
    checkpoint_window: int | None = None
    misplaced: bool = False

    @property
    def made_progress(self) -> bool:
        """Whether it made a newer checkpoint than the one that it had gone on from."""
        return (self.checkpoint_window or 0) > (self.began_after_window or 0)


def status_after(ending: Stint, *, earlier: Sequence[Stint] = (), max_resumes: int) -> CellStatus:
    """Returns where a cell stands once an attempt at it has ended.

    What the user cancelled, or the machine took back after a newer checkpoint, stays open, and so
    does what was only in the wrong place. What was lost stays open until it was lost `max_resumes`
    times before without progress in between. Everything else is final.

    Args:
        earlier: The attempts at the cell before this one, the first one first.
    """
    assert ending.reason is not None, "it has ended"
    outcome = OUTCOME_OF[ending.reason]
    if outcome is OutcomeKind.CANCELLED or ending.misplaced:
        return CellStatus.WAITING
    if ending.reason is Reason.PREEMPTED and ending.made_progress:
        return CellStatus.WAITING
    if outcome is OutcomeKind.LOST and losses_without_progress(earlier, ending) < max_resumes:
        return CellStatus.WAITING
    return CellStatus.ENDED


def losses_without_progress(earlier: Sequence[Stint], ending: Stint) -> int:
    """Returns how often the cell was lost before, since it last came further.

    A checkpoint counts once a later attempt has gone on from it, or one that is newer: one that
    turned out to be damaged is no progress. The newest checkpoint of the attempt that is ending has
    not been tried, and outweighs one loss.
    """
    attempts = (*earlier, ending)
    losses = 0
    for place, stint in enumerate(earlier):
        came_further = stint.made_progress and _was_of_use(stint, attempts[place + 1 :])
        if came_further:
            losses = 0
        if _is_loss(stint) and not (came_further and stint.reason is Reason.PREEMPTED):
            losses += 1
    return max(0, losses - 1) if ending.made_progress else losses


def _is_loss(stint: Stint) -> bool:
    """Says whether the machine took it; one that was only in the wrong place lost nothing."""
    if stint.reason is None or stint.misplaced:
        return False
    return OUTCOME_OF[stint.reason] is OutcomeKind.LOST


def _was_of_use(stint: Stint, later: Sequence[Stint]) -> bool:
    """Says whether the next attempt that got so far began later; if none did, the benefit of it."""
    began = (s.began_after_window for s in later if s.began_after_window is not None)
    return next(began, _NEVER) > (stint.began_after_window or 0)


_NEVER = 2**31
