"""What a database is made anew from: its journal, and attempts as they were claimed and ended.

A journal is what the record knows besides its attempts: what users changed by hand, and whether
the study has ended. Restoring does what was done then, by the same functions, and afterwards puts
the times right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, and_, select, update

from sweeper.records import Reason
from sweeper.store import interventions, metrics
from sweeper.store.claims import IS_FREE, Claim, greatest_fencing_number, is_attempt, take
from sweeper.store.database import Database
from sweeper.store.decoding import checked, decoded, json_object
from sweeper.store.interventions import Intervention
from sweeper.store.plain import storable, to_json
from sweeper.store.planning import end_study
from sweeper.store.status import CellStatus
from sweeper.store.tables import ATTEMPT, CELL, INTERVENTION, LATE_RESULT, STUDY

FENCES_APART = 1_000_000
"""Between the first fencing numbers of a database and of one that is made in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One intervention as it is on record; see `tables.INTERVENTION`.

    Attributes:
        at: By the database's clock, as text.
    """

    number: int
    kind: Intervention
    cell: str | None
    after_attempt: int | None
    from_the_start: bool
    detail: Mapping[str, object]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyState:
    """Whether the study has ended.

    Attributes:
        not_run: Why each cell that is not run any more never started, by the cell's id.
    """

    ended_why: str | None = None
    ended_at: str | None = None
    not_run: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What the record knows besides its attempts."""

    entries: tuple[Entry, ...]
    state: StudyState


class RestoredRecord:
    """A lost database, made anew from what its run folder holds; see `StudyStore` on transactions.

    Raises:
        StoreError: From every method: the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, claim: Claim, *, claimed_at: str | None) -> bool:
        """Opens the attempt that the claim was for; False if it is not the cell's next one."""
        return self._database.write(lambda c: restore_claim(c, claim, claimed_at=claimed_at))

    def time(self, claim: Claim, *, at: str, late: Reason | None = None) -> None:
        """Puts right when the attempt ended, or when that result of it came too late."""
        self._database.write(lambda c: restore_time(c, claim, at=at, late=late))

    def entry(self, entry: Entry) -> bool:
        """Does again what a user did; False if it cannot have been so."""
        return self._database.write(lambda c: restore_entry(c, entry))

    def state(self, state: StudyState) -> None:
        """Ends the study, or lets it go on, as it was."""
        self._database.write(lambda c: restore_state(c, state))

    def fence_off(self, *, beyond: int) -> None:
        """Fences off whoever has a claim of the lost database, see `fence_off_the_lost`."""
        self._database.write(lambda c: fence_off_the_lost(c, beyond=beyond))


def read_journal(connection: Connection) -> Journal:
    """Returns every intervention, the first one first, and whether the study has ended."""
    rows = connection.execute(select(INTERVENTION).order_by(INTERVENTION.c.number)).mappings()
    entries = tuple(map(_entry, rows))
    not_run = select(CELL.c.cell, CELL.c.detail).where(CELL.c.status == CellStatus.NOT_RUN.value)
    ended = connection.execute(select(STUDY.c.ended_why, STUDY.c.ended_at)).one_or_none()
    state = StudyState(
        ended_why=None if ended is None else ended.ended_why,
        ended_at=None if ended is None else ended.ended_at,
        not_run={row.cell: row.detail for row in connection.execute(not_run)},
    )
    return Journal(entries=entries, state=state)


def _entry(row: RowMapping) -> Entry:
    checked([row], INTERVENTION.c, of=INTERVENTION.name)
    of = f"{INTERVENTION.name}, number {row['number']}"
    kind = decoded(row, "kind", Intervention, of=of)
    return Entry(**{**row, "kind": kind, "detail": decoded(row, "detail", json_object, of=of)})


def restore_claim(connection: Connection, claim: Claim, *, claimed_at: str | None) -> bool:
    """Opens the attempt that the claim was for; False if it is not the cell's next one."""
    is_next = and_(IS_FREE, CELL.c.attempts == claim.attempt - 1)
    if take(connection, claim.cell, claim.owner, claim.slot, free=is_next) is None:
        return False
    fence = {"fencing_number": claim.fencing_number}
    connection.execute(update(CELL).where(CELL.c.cell == claim.cell).values(**fence))
    times = {} if claimed_at is None else {"claimed_at": claimed_at}
    connection.execute(update(ATTEMPT).where(is_attempt(claim)).values(**fence, **times))
    return True


def fence_off_the_lost(connection: Connection, *, beyond: int) -> None:
    """Lets free cells go on with fencing numbers that no owner of the lost database has had.

    Some of those may be unknown: owners on other hosts that left nothing here. So the numbers of
    each database that is made anew begin a long way after all that are known.

    Args:
        beyond: The greatest number that is known besides those on record.
    """
    number = (max(greatest_fencing_number(connection), beyond) // FENCES_APART + 1) * FENCES_APART
    connection.execute(update(CELL).where(CELL.c.owner.is_(None)).values(fencing_number=number))


def restore_time(
    connection: Connection, claim: Claim, *, at: str, late: Reason | None = None
) -> None:
    """Puts right when the attempt ended, or when that result of it came too late."""
    if late is None:
        ended = and_(is_attempt(claim), ATTEMPT.c.ended_at.is_not(None))
        connection.execute(update(ATTEMPT).where(ended).values(ended_at=at))
        return
    own = and_(LATE_RESULT.c.cell == claim.cell, LATE_RESULT.c.attempt == claim.attempt)
    result = and_(own, LATE_RESULT.c.reason == late.value)
    connection.execute(update(LATE_RESULT).where(result).values(recorded_at=at))


def restore_entry(connection: Connection, entry: Entry) -> bool:
    """Does again what the user did; False, and nothing counts, if it cannot have been so."""
    if not _done_again(connection, entry):
        return False
    own = INTERVENTION.c.number == entry.number
    done = connection.execute(
        update(INTERVENTION)
        .where(own, INTERVENTION.c.kind == entry.kind.value)
        .values(at=entry.at, detail=to_json(entry.detail))
    )
    return done.rowcount == 1


def _done_again(connection: Connection, entry: Entry) -> bool:
    match entry.kind, entry.cell:
        case Intervention.RETRY | Intervention.AMEND, str(cell):
            return interventions.reopen(
                connection, cell, kind=entry.kind, from_the_start=entry.from_the_start
            )
        case Intervention.CANCEL, str(cell):
            return interventions.cancel(connection, cell, str(entry.detail["why"]))
        case Intervention.CLOSE, None:
            _close(connection, entry.detail)
        case Intervention.AMEND | Intervention.CLEAN, None:
            interventions.record(connection, entry.kind, detail=entry.detail)
        case Intervention.ATTACH, None:
            _attach(connection, entry)
        case _:
            return False
    return True


def _close(connection: Connection, detail: Mapping[str, object]) -> None:
    """Ends the cells that waited then; others may not have been waiting for long."""
    cells, why = detail["cells"], str(detail["why"])
    assert isinstance(cells, list)
    interventions.end_as_cancelled(connection, CELL.c.cell.in_(cells), why)
    interventions.record(connection, Intervention.CLOSE, detail=detail)
    end_study(connection, why)


def _attach(connection: Connection, entry: Entry) -> None:
    """Puts the metrics there that were attached then, over what stood there before."""
    values, detail = entry.detail["values"], entry.detail
    assert isinstance(values, list)
    source = metrics.Source(name=str(detail["source"]), sha256=str(detail["sha256"]))
    metrics.put(connection, [tuple(value) for value in values], source, at=str(detail["at"]))
    interventions.record(connection, Intervention.ATTACH, detail=detail)


def restore_state(connection: Connection, state: StudyState) -> None:
    """Ends the study, or lets it go on, as it was; no cell that has begun is touched."""
    untouched = CELL.c.attempts == 0
    waits = and_(untouched, CELL.c.status == CellStatus.NOT_RUN.value)
    connection.execute(
        update(CELL).where(waits).values(status=CellStatus.WAITING.value, detail=None)
    )
    for cell, why in state.not_run.items():
        connection.execute(
            update(CELL)
            .where(CELL.c.cell == cell, untouched, IS_FREE)
            .values(status=CellStatus.NOT_RUN.value, detail=storable(why))
        )
    connection.execute(
        update(STUDY).values(
            ended_why=None if state.ended_why is None else storable(state.ended_why),
            ended_at=state.ended_at,
        )
    )
