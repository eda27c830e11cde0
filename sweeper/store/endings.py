"""How attempts end: once, by whoever holds the claim; what comes later is kept apart.

Ending an attempt and freeing or ending its cell is one transaction, conditional on the fencing
number. Nothing that ended is ever overwritten.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from sweeper.records import Outcome, Reason
from sweeper.store import chain
from sweeper.store.claims import Claim, holds, is_attempt
from sweeper.store.engine import DatabaseTime
from sweeper.store.interventions import reopened_after
from sweeper.store.plain import LONGEST_DETAIL, harmless, to_harmless_json
from sweeper.store.status import CellStatus, Stint, status_after
from sweeper.store.tables import ATTEMPT, CELL, LATE_RESULT
from sweeper.study.same_environment import was_misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an attempt used, as its supervisor measured it; None where nobody could.

    Attributes:
        exit_status: Of the child; the negative signal number if a signal ended it.
    """

    wall_seconds: float | None = None
    peak_memory_bytes: int | None = None
    exit_status: int | None = None


def finish(
    connection: Connection, claim: Claim, outcome: Outcome, cost: Cost, *, max_resumes: int
) -> bool:
    """Ends the attempt, or stores its result apart; True if the record says this outcome."""
    if end_attempt(connection, claim, outcome, cost, max_resumes=max_resumes):
        return True
    if _reason_on_record(connection, claim) == outcome.reason:
        return True
    _store_apart(connection, claim, outcome, cost)
    return False


def end_attempt(
    connection: Connection, claim: Claim, outcome: Outcome, cost: Cost, *, max_resumes: int
) -> bool:
    """Ends the attempt and moves its cell on; False, and nothing changes, if it isn't ours."""
    *earlier, this = _stints(connection, claim)
    misplaced = was_misplaced(outcome.evidence)
    ended = dataclasses.replace(this, reason=outcome.reason, misplaced=misplaced)
    status = status_after(ended, earlier=earlier, max_resumes=max_resumes)
    ending = _ending(outcome) if status is CellStatus.ENDED else {}
    moved = connection.execute(
        update(CELL).where(holds(claim)).values(status=status.value, owner=None, **ending)
    )
    if moved.rowcount == 0:
        return False
    connection.execute(
        update(ATTEMPT)
        .where(is_attempt(claim))
        .values(ended_at=DatabaseTime(), **_ending(outcome), **_facts(outcome, cost))
    )
    chain.tell_ended(connection, cell=claim.cell, attempt=claim.attempt)
    return True


def _stints(connection: Connection, claim: Claim) -> list[Stint]:
    """Returns the attempts at the cell up to the claim's, since a user last opened it again."""
    first = reopened_after(connection, claim.cell) + 1
    query = (
        select(
            ATTEMPT.c.reason,
            ATTEMPT.c.resumed_after_window,
            ATTEMPT.c.checkpoint_window,
            ATTEMPT.c.evidence,
        )
        .where(ATTEMPT.c.cell == claim.cell, ATTEMPT.c.attempt.between(first, claim.attempt))
        .order_by(ATTEMPT.c.attempt)
    )
    return [
        Stint(
            reason=None if row.reason is None else Reason(row.reason),
            began_after_window=row.resumed_after_window,
            checkpoint_window=row.checkpoint_window,
            misplaced=was_misplaced(json.loads(row.evidence or "{}")),
        )
        for row in connection.execute(query)
    ]


def _reason_on_record(connection: Connection, claim: Claim) -> Reason | None:
    reason = connection.execute(select(ATTEMPT.c.reason).where(is_attempt(claim))).scalar_one()
    return None if reason is None else Reason(reason)


def _store_apart(connection: Connection, claim: Claim, outcome: Outcome, cost: Cost) -> None:
    key = {"cell": claim.cell, "attempt": claim.attempt, "reason": outcome.reason.value}
    known = select(LATE_RESULT.c.reason).filter_by(**key)
    if connection.execute(known).one_or_none() is None:
        values = _ending(outcome) | _facts(outcome, cost)
        connection.execute(insert(LATE_RESULT).values(recorded_at=DatabaseTime(), **(key | values)))


def _ending(outcome: Outcome) -> dict[str, object]:
    return {
        "outcome": outcome.kind.value,
        "reason": outcome.reason.value,
        "detail": harmless(outcome.detail, LONGEST_DETAIL),
    }


def _facts(outcome: Outcome, cost: Cost) -> dict[str, object]:
    return {
        "evidence": to_harmless_json(outcome.evidence),
        "exit_status": cost.exit_status,
        "wall_seconds": cost.wall_seconds,
        "peak_memory_bytes": cost.peak_memory_bytes,
    }
