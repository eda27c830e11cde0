"""Attempts whose owner is gone: found, put on record as lost, their cells freed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, select, update

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Claim, Owner, Process, holds, is_attempt, is_ours
from sweeper.store.decoding import decoded
from sweeper.store.endings import Cost, end_attempt
from sweeper.store.engine import DatabaseTime
from sweeper.store.plain import to_time
from sweeper.store.tables import ATTEMPT, CELL


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """An attempt that owns its cell, as the database knows it.

    Attributes:
        overdue: Whether its lease has expired by the database's clock.
        supervisor: None until it is on record.
        child: None until it is on record.
    """

    claim: Claim
    claimed_at: datetime
    lease_expires_at: datetime
    overdue: bool
    supervisor: Process | None
    child: Process | None


def live_attempts(connection: Connection, *, grace_seconds: float = 0.0) -> list[LiveAttempt]:
    """Returns every attempt that owns its cell, in plan order.

    Args:
        grace_seconds: A lease counts as overdue only this long after it expired.
    """
    overdue = ATTEMPT.c.lease_expires_at < DatabaseTime(-grace_seconds)
    query = (
        select(ATTEMPT, CELL.c.arm, CELL.c.seed, overdue.label("overdue"))
        .join_from(CELL, ATTEMPT, ATTEMPT.c.cell == CELL.c.cell)
        .where(CELL.c.owner == ATTEMPT.c.attempt)
        .order_by(CELL.c.position)
    )
    return [_live_attempt(row) for row in connection.execute(query).mappings()]


def lose(
    connection: Connection, lost: Iterable[LiveAttempt], *, why: str, max_resumes: int
) -> tuple[LiveAttempt, ...]:
    """Ends those of the attempts that still own their cells as lost; returns these."""
    return tuple(
        live
        for live in lost
        if end_attempt(
            connection, live.claim, _worker_lost(live, why), Cost(), max_resumes=max_resumes
        )
    )


def lose_overdue(
    connection: Connection, live: LiveAttempt, *, grace_seconds: float, max_resumes: int
) -> bool:
    """Ends the attempt as lost, if it is still its cell's owner and its lease expired so long ago.

    Its owner cannot renew the lease in between: the cell's row is locked.
    """
    if not is_ours(connection, live.claim):
        return False
    overdue = ATTEMPT.c.lease_expires_at < DatabaseTime(-grace_seconds)
    query = select(ATTEMPT.c.attempt).where(is_attempt(live.claim), overdue)
    if connection.execute(query).one_or_none() is None:
        return False
    why = f"did not renew its lease, which expired more than {grace_seconds:g} s ago"
    outcome = _worker_lost(live, why)
    return end_attempt(connection, live.claim, outcome, Cost(), max_resumes=max_resumes)


def take_over(
    connection: Connection, claim: Claim, owner: Owner, slot: str, *, lease_seconds: float
) -> Claim | None:
    """Makes the owner that of an attempt that still runs, under the cell's next fencing number.

    Whoever held it is fenced off. Asked again after it has taken effect, it returns the same.
    None, and nothing changes, if the claim no longer holds.
    """
    number = claim.fencing_number + 1
    taken = replace(claim, fencing_number=number, owner=owner, slot=slot)
    if not is_ours(connection, claim):
        return taken if _is_owner(connection, taken) else None
    connection.execute(update(CELL).where(holds(claim)).values(fencing_number=number))
    connection.execute(
        update(ATTEMPT)
        .where(is_attempt(claim))
        .values(
            fencing_number=number,
            worker=owner.worker,
            host=owner.host,
            pid=owner.pid,
            process_started_at=owner.started_at,
            slot=slot,
            lease_expires_at=DatabaseTime(lease_seconds),
        )
    )
    return taken


def _is_owner(connection: Connection, claim: Claim) -> bool:
    owner = claim.owner
    query = select(ATTEMPT.c.attempt).where(
        is_attempt(claim),
        ATTEMPT.c.host == owner.host,
        ATTEMPT.c.pid == owner.pid,
        ATTEMPT.c.process_started_at == owner.started_at,
    )
    its = connection.execute(query).one_or_none() is not None
    return its and is_ours(connection, claim)


def _worker_lost(live: LiveAttempt, why: str) -> Outcome:
    owner = live.claim.owner
    return Outcome(
        reason=Reason.WORKER_LOST,
        detail=f"worker {owner.worker} (process {owner.pid} on {owner.host}) {why}",
        evidence={
            "worker": owner.worker,
            "host": owner.host,
            "pid": str(owner.pid),
            "process_started_at": owner.started_at,
            "slot": live.claim.slot,
            "claimed_at": live.claimed_at.isoformat(),
            "lease_expires_at": live.lease_expires_at.isoformat(),
        },
    )


def _live_attempt(row: RowMapping) -> LiveAttempt:
    of = f"{ATTEMPT.name}, cell {row['cell']}, attempt {row['attempt']}"
    owner = Owner(
        worker=row["worker"],
        host=row["host"],
        pid=row["pid"],
        started_at=row["process_started_at"],
    )
    claim = Claim(
        owner=owner,
        **{name: row[name] for name in ("cell", "arm", "seed", "attempt", "fencing_number")},
        slot=row["slot"],
        folder=row["folder"],
    )
    return LiveAttempt(
        claim=claim,
        claimed_at=decoded(row, "claimed_at", to_time, of=of),
        lease_expires_at=decoded(row, "lease_expires_at", to_time, of=of),
        overdue=bool(row["overdue"]),
        supervisor=_process(row["supervisor_pid"], row["supervisor_started_at"]),
        child=_process(row["child_pid"], row["child_started_at"]),
    )


def _process(pid: int | None, started_at: str | None) -> Process | None:
    if pid is None or started_at is None:
        return None
    return Process(pid=pid, started_at=started_at)
