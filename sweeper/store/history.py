"""A trial's history: every window once, every evaluation once, over all its attempts.

An attempt that goes on from a checkpoint takes over the history of the attempt that made it, up to
the checkpoint's window; what that one did afterwards was done again, and is cost, not history. So
the history is read backwards from the newest attempt that has begun to read, along the checkpoints.
An attempt that was lost before it went on from anything is not in it.
"""

from __future__ import annotations

from sqlalchemy import CTE, ColumnElement, Integer, Table, and_, func, literal, select

from sweeper.store.tables import ATTEMPT, EVALUATION

_NO_END = 2**31 - 1
"""Stands for the last window of the newest attempt, which counts whole."""


def lineage() -> CTE:
    """Returns the attempts that count, each with the last of its windows that does.

    Columns: `cell`, `attempt`, `until_window`.
    """
    newest = (
        select(
            ATTEMPT.c.cell,
            func.max(ATTEMPT.c.attempt).label("attempt"),
            literal(_NO_END, Integer).label("until_window"),
        )
        .where(ATTEMPT.c.resumed_after_window.is_not(None))
        .group_by(ATTEMPT.c.cell)
        .cte("lineage", recursive=True)
    )
    later = and_(ATTEMPT.c.cell == newest.c.cell, ATTEMPT.c.attempt == newest.c.attempt)
    return newest.union_all(
        select(ATTEMPT.c.cell, ATTEMPT.c.resumed_from_attempt, ATTEMPT.c.resumed_after_window)
        .join_from(newest, ATTEMPT, later)
        .where(ATTEMPT.c.resumed_from_attempt.is_not(None))
    )


def counts_in(attempts: CTE, table: Table) -> ColumnElement[bool]:
    """The condition that a row of updates or evaluations is part of its trial's history."""
    return and_(
        table.c.cell == attempts.c.cell,
        table.c.attempt == attempts.c.attempt,
        table.c.window <= attempts.c.until_window,
    )


def evaluations_of(attempts: CTE) -> CTE:
    """Returns the evaluations of the trials' histories, with all columns of their table.

    An evaluation that belongs to a checkpoint's own window may have been made again by the attempt
    that went on from it; then that one counts.
    """
    place = (
        func.row_number()
        .over(
            partition_by=(EVALUATION.c.cell, EVALUATION.c.split, EVALUATION.c.grid_index),
            order_by=(EVALUATION.c.attempt.desc(), EVALUATION.c.sequence.desc()),
        )
        .label("place")
    )
    ranked = (
        select(EVALUATION, place)
        .join_from(attempts, EVALUATION, counts_in(attempts, EVALUATION))
        .subquery("ranked")
    )
    columns = [ranked.c[column.name] for column in EVALUATION.c]
    return select(*columns).where(ranked.c.place == 1).cte("evaluations")
