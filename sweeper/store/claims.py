"""Who owns a cell: one owner at a time, and every change of owner has a number.

A claim takes a free cell, gives it the next fencing number and opens its next attempt, in one
transaction. The update is conditional on the cell still being free, so two processes that saw
the same free cell cannot both get it, whatever isolation the database offers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from sweeper.store import chain
from sweeper.store.engine import DatabaseTime
from sweeper.store.status import CellStatus
from sweeper.store.tables import ATTEMPT, CELL, STUDY
from sweeper.study.folder import StudyFolder

LEASE_SECONDS = 300.0
"""How long a claim holds without being renewed, by the database's clock."""

IS_FREE: ColumnElement[bool] = and_(
    CELL.c.status == CellStatus.WAITING.value, CELL.c.owner.is_(None)
)
"""The condition under which a cell may be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, told from a later one with the same number by when it started.

    Attributes:
        started_at: `repr` of its start time as the system gives it.
    """

    pid: int
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who claims cells: a worker's name and the coordinator process it lives in."""

    worker: str
    host: str
    pid: int
    started_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which of the free cells is asked for: the first in plan order, unless more is said.

    Attributes:
        cell: This one and no other.
        reverse: The last in plan order.
        barred: None of these: they are left to others.
        alone_after: None at all unless so many attempts have begun, whoever began them, and none of
            them runs any more.
    """

    cell: str | None = None
    reverse: bool = False
    barred: Collection[str] = ()
    alone_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run one attempt at one cell, until somebody takes the cell over.

    Attributes:
        cell: `arm/seed`.
        attempt: From 1 in each cell.
        fencing_number: Grows with every change of owner; writes of an older one are refused.
        folder: The attempt's folder, relative to the study's.
    """

    cell: str
    arm: str
    seed: int
    attempt: int
    fencing_number: int
    owner: Owner
    slot: str
    folder: str


def claim(
    connection: Connection,
    owner: Owner,
    slot: str,
    *,
    wanted: Wanted,
    lease_seconds: float,
    token: str,
) -> Claim | None:
    """Takes the free cell that is wanted; None if there is none.

    Args:
        token: Of this call. Another one with it, made because this one's answer was lost, gets the
            cell that this one took.
    """
    if (taken := _taken_with(connection, token)) is not None:
        found = _read_claim(connection, taken, owner, slot)
        renew(connection, found, lease_seconds=lease_seconds)
        return found
    if wanted.alone_after is not None and not _is_quiet(connection, wanted.alone_after):
        return None
    while (free := next_free(connection, wanted)) is not None:
        claimed = take(connection, free, owner, slot, lease_seconds=lease_seconds)
        if claimed is not None:
            connection.execute(update(ATTEMPT).where(is_attempt(claimed)).values(token=token))
            return claimed
    return None


def _taken_with(connection: Connection, token: str) -> str | None:
    """Returns the cell that a call with the token took, while nobody has taken it over."""
    query = (
        select(CELL.c.cell)
        .join(ATTEMPT, and_(ATTEMPT.c.cell == CELL.c.cell, ATTEMPT.c.attempt == CELL.c.owner))
        .where(ATTEMPT.c.token == token)
    )
    return connection.execute(query).scalar_one_or_none()


def _is_quiet(connection: Connection, begun: int) -> bool:
    """Says whether so many attempts have begun and none runs; it stays so until we have claimed."""
    connection.execute(select(STUDY.c.id).with_for_update())
    counts = select(func.sum(CELL.c.attempts), func.count(CELL.c.owner))
    return tuple(connection.execute(counts).one()) == (begun, 0)


def next_free(connection: Connection, wanted: Wanted) -> str | None:
    """Returns the free cell that is wanted, if there is one."""
    order = CELL.c.position.desc() if wanted.reverse else CELL.c.position
    query = select(CELL.c.cell).where(IS_FREE).order_by(order).limit(1)
    if wanted.barred:
        query = query.where(CELL.c.cell.not_in(sorted(wanted.barred)))
    if wanted.cell is not None:
        query = query.where(CELL.c.cell == wanted.cell)
    return connection.execute(query).scalar_one_or_none()


def take(
    connection: Connection,
    cell: str,
    owner: Owner,
    slot: str,
    *,
    lease_seconds: float = LEASE_SECONDS,
    free: ColumnElement[bool] = IS_FREE,
) -> Claim | None:
    """Takes the cell if it is free, and opens its next attempt; None if it is not.

    Args:
        free: What must hold for the cell at the moment of the update.
    """
    taken = connection.execute(
        update(CELL)
        .where(CELL.c.cell == cell, free)
        .values(
            status=CellStatus.RUNNING.value,
            owner=CELL.c.attempts + 1,
            attempts=CELL.c.attempts + 1,
            fencing_number=CELL.c.fencing_number + 1,
        )
    )
    if taken.rowcount == 0:
        return None
    claim = _read_claim(connection, cell, owner, slot)
    _open_attempt(connection, claim, lease_seconds)
    return claim


def renew(connection: Connection, claim: Claim, *, lease_seconds: float) -> bool:
    """Extends the lease from now; False, and nothing changes, once the cell is not ours."""
    if not is_ours(connection, claim):
        return False
    connection.execute(
        update(ATTEMPT)
        .where(is_attempt(claim))
        .values(lease_expires_at=DatabaseTime(lease_seconds))
    )
    return True


def record_processes(
    connection: Connection, claim: Claim, *, supervisor: Process | None, child: Process | None
) -> None:
    """Records the processes that are given."""
    values: dict[str, object] = {}
    for name, process in (("supervisor", supervisor), ("child", child)):
        if process is not None:
            values |= {f"{name}_pid": process.pid, f"{name}_started_at": process.started_at}
    if values:
        connection.execute(update(ATTEMPT).where(is_attempt(claim)).values(**values))


def is_ours(connection: Connection, claim: Claim) -> bool:
    """Whether the claim still holds; the cell's row stays locked until the transaction ends."""
    query = select(CELL.c.cell).where(holds(claim)).with_for_update()
    return connection.execute(query).one_or_none() is not None


def holds(claim: Claim) -> ColumnElement[bool]:
    """The condition on a cell that the claim still holds it."""
    return and_(
        CELL.c.cell == claim.cell,
        CELL.c.owner == claim.attempt,
        CELL.c.fencing_number == claim.fencing_number,
    )


def greatest_fencing_number(connection: Connection) -> int:
    """Returns the greatest number that an owner of any cell has had; 0 before there is one."""
    return connection.execute(select(func.max(CELL.c.fencing_number))).scalar_one() or 0


def is_attempt(claim: Claim) -> ColumnElement[bool]:
    """The condition on an attempt that it is the claim's."""
    return and_(ATTEMPT.c.cell == claim.cell, ATTEMPT.c.attempt == claim.attempt)


def _read_claim(connection: Connection, cell: str, owner: Owner, slot: str) -> Claim:
    row = connection.execute(
        select(CELL.c.arm, CELL.c.seed, CELL.c.attempts, CELL.c.fencing_number).where(
            CELL.c.cell == cell
        )
    ).one()
    folder = StudyFolder(Path()).attempt(arm=row.arm, seed=row.seed, number=row.attempts)
    return Claim(
        cell=cell,
        arm=row.arm,
        seed=row.seed,
        attempt=row.attempts,
        fencing_number=row.fencing_number,
        owner=owner,
        slot=slot,
        folder=folder.as_posix(),
    )


def _open_attempt(connection: Connection, claim: Claim, lease_seconds: float) -> None:
    connection.execute(
        insert(ATTEMPT).values(
            cell=claim.cell,
            attempt=claim.attempt,
            fencing_number=claim.fencing_number,
            worker=claim.owner.worker,
            host=claim.owner.host,
            pid=claim.owner.pid,
            process_started_at=claim.owner.started_at,
            slot=claim.slot,
            folder=claim.folder,
            claimed_at=DatabaseTime(),
            lease_expires_at=DatabaseTime(lease_seconds),
            last_sequence=0,
        )
    )
    chain.tell_started(connection, cell=claim.cell, attempt=claim.attempt)
