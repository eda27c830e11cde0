"""What a user changes by hand: a cell opened again, limits raised, cells cancelled, a study closed.

Each change and its entry in the list of interventions are one transaction, conditional on what
the cell was when the user decided. No attempt is touched: what happened stays on record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from sweeper.errors import StudyConflict
from sweeper.records import OUTCOME_OF, Reason
from sweeper.selection.chain import EntryKind, Link
from sweeper.selection.frozen import Frozen
from sweeper.store import chain
from sweeper.store.claims import IS_FREE
from sweeper.store.engine import DatabaseTime
from sweeper.store.plain import storable, to_json
from sweeper.store.planning import end_study, reopen_study
from sweeper.store.status import CellStatus
from sweeper.store.tables import CELL, INTERVENTION


class Intervention(StrEnum):
    """What was done: a cell opened again, what is open ended, room made, metrics attached."""

    RETRY = "retry"
    AMEND = "amend"
    CANCEL = "cancel"
    CLOSE = "close"
    CLEAN = "clean"
    ATTACH = "attach"


_REOPENS = (Intervention.RETRY.value, Intervention.AMEND.value)


def reopen(connection: Connection, cell: str, *, kind: Intervention, from_the_start: bool) -> bool:
    """Lets an ended cell wait again, and the study go on; False if the cell has not ended."""
    assert kind.value in _REOPENS, "only these open a cell"
    ended = and_(CELL.c.cell == cell, CELL.c.status == CellStatus.ENDED.value)
    row = connection.execute(select(CELL).where(ended).with_for_update()).mappings().one_or_none()
    if row is None:
        return False
    before = {name: row[name] for name in ("outcome", "reason", "detail")}
    empty = dict.fromkeys(before)
    connection.execute(update(CELL).where(ended).values(status=CellStatus.WAITING.value, **empty))
    record(connection, kind, cell=cell, from_the_start=from_the_start, detail=before)
    reopen_study(connection)
    return True


def amend(connection: Connection, limits: Mapping[str, str], cells: Iterable[str]) -> None:
    """Records limits by name that hold from now on, and lets the cells go on that they ended."""
    detail = {"limits": dict(limits), "before": dict(amended_limits(connection))}
    record(connection, Intervention.AMEND, detail=detail)
    for cell in cells:
        reopen(connection, cell, kind=Intervention.AMEND, from_the_start=False)


def amended_limits(connection: Connection) -> Mapping[str, str]:
    """Returns the limits that were amended by name, as they are now."""
    query = (
        select(INTERVENTION.c.detail)
        .where(INTERVENTION.c.kind == Intervention.AMEND.value, INTERVENTION.c.cell.is_(None))
        .order_by(INTERVENTION.c.number)
    )
    limits: dict[str, str] = {}
    for detail in connection.execute(query).scalars():
        limits |= json.loads(detail)["limits"]
    return limits


def cancel(connection: Connection, cell: str, why: str) -> bool:
    """Ends a waiting cell as cancelled; False if it is not waiting."""
    if not end_as_cancelled(connection, CELL.c.cell == cell, why):
        return False
    record(connection, Intervention.CANCEL, cell=cell, detail={"why": why})
    return True


def close_study(connection: Connection, why: str) -> tuple[str, ...]:
    """Ends every waiting cell as cancelled, and the study for good; returns these cells."""
    waiting = select(CELL.c.cell).where(IS_FREE).order_by(CELL.c.position)
    cells = tuple(connection.execute(waiting).scalars())
    end_as_cancelled(connection, CELL.c.cell.in_(cells), why)
    record(connection, Intervention.CLOSE, detail={"why": why, "cells": cells})
    end_study(connection, why)
    return cells


def freeze(connection: Connection, choice: Frozen, why: str) -> Link:
    """Records the choice and closes the study; returns the chain's entry.

    Raises:
        StudyConflict: It was frozen by somebody else meanwhile.
    """
    chain.lock_head(connection)
    if len(chain.links(connection, EntryKind.SELECTION_FROZEN)) != choice.number - 1:
        raise StudyConflict("somebody else has frozen the study's choice meanwhile")
    waiting = select(func.count()).where(IS_FREE)  # a job may have outlived the closing and be lost
    if not is_closed(connection) or connection.execute(waiting).scalar_one():
        close_study(connection, why)
    return chain.append(connection, EntryKind.SELECTION_FROZEN, choice.to_facts())


def record_cleaning(connection: Connection, *, checkpoints: int, size_bytes: int) -> None:
    """Records that so many checkpoints were dropped, and what they held."""
    detail = {"checkpoints": checkpoints, "bytes": size_bytes}
    record(connection, Intervention.CLEAN, detail=detail)


def is_closed(connection: Connection) -> bool:
    """Says whether a user has closed the study."""
    query = select(func.count()).where(INTERVENTION.c.kind == Intervention.CLOSE.value)
    return connection.execute(query).scalar_one() > 0


def reopened_after(connection: Connection, cell: str) -> int:
    """Returns how many attempts the cell had when it was last opened again; 0 if it never was."""
    return _last_attempt(connection, cell, INTERVENTION.c.kind.in_(_REOPENS))


def left_behind(connection: Connection, cell: str) -> int:
    """Returns the number of the last attempt that later ones take nothing over from, or 0."""
    return _last_attempt(connection, cell, INTERVENTION.c.from_the_start.is_(True))


def _last_attempt(connection: Connection, cell: str, condition: ColumnElement[bool]) -> int:
    query = select(func.max(INTERVENTION.c.after_attempt)).where(
        INTERVENTION.c.cell == cell, condition
    )
    return connection.execute(query).scalar_one() or 0


def end_as_cancelled(connection: Connection, which: ColumnElement[bool], why: str) -> int:
    """Ends those waiting cells as cancelled; returns how many."""
    reason = Reason.USER_CANCELLED
    ended = connection.execute(
        update(CELL)
        .where(IS_FREE, which)
        .values(
            status=CellStatus.ENDED.value,
            outcome=OUTCOME_OF[reason].value,
            reason=reason.value,
            detail=storable(why),
        )
    )
    return ended.rowcount


def record(
    connection: Connection,
    kind: Intervention,
    *,
    detail: object,
    cell: str | None = None,
    from_the_start: bool = False,
) -> None:
    """Adds an intervention to the list, which then has happened."""
    attempts = select(CELL.c.attempts).where(CELL.c.cell == cell).scalar_subquery()
    last = connection.execute(select(func.max(INTERVENTION.c.number))).scalar_one() or 0
    connection.execute(
        insert(INTERVENTION).values(
            number=last + 1,
            kind=kind.value,
            cell=cell,
            after_attempt=None if cell is None else attempts,
            from_the_start=from_the_start,
            detail=to_json(detail),
            at=DatabaseTime(),
        )
    )
    chain.tell_intervention(connection, last + 1)
