"""The losses of a trial at the start and at the declared checkpoint, one row per cell.

Each select has the columns `cell`, `validation_loss`, `retention_loss`, and reads the evaluations
of the trials' histories; a loss that is not finite is NULL there.
"""

from __future__ import annotations

from sqlalchemy import CTE, ColumnElement, Select, Subquery, and_, case, func, select

VALIDATION = "validation"
RETENTION = "retention"


def initial(evaluations: CTE) -> Subquery:
    """The losses before the first update."""
    losses = _losses(evaluations).where(evaluations.c.grid_index == 0)
    return losses.group_by(evaluations.c.cell).subquery("start")


def last(evaluations: CTE, counts: Subquery) -> Subquery:
    """The losses after the last window that was read.

    Args:
        counts: What each cell has read: `cell`, `target_tokens_read`.
    """
    at_the_end = and_(
        counts.c.cell == evaluations.c.cell,
        counts.c.target_tokens_read == evaluations.c.target_tokens_read,
    )
    losses = _losses(evaluations).join_from(evaluations, counts, at_the_end)
    return losses.group_by(evaluations.c.cell).subquery("end")


def best(evaluations: CTE) -> Subquery:
    """The lowest validation loss after some update, and the retention loss of the same index.

    Of equal losses the earliest counts.
    """
    place = (
        func.row_number()
        .over(
            partition_by=evaluations.c.cell,
            order_by=(evaluations.c.loss, evaluations.c.grid_index),
        )
        .label("place")
    )
    ranked = (
        select(evaluations.c.cell, evaluations.c.grid_index, place)
        .where(
            evaluations.c.split == VALIDATION,
            evaluations.c.grid_index >= 1,
            evaluations.c.loss.is_not(None),
        )
        .subquery("by_loss")
    )
    is_best = and_(
        ranked.c.place == 1,
        ranked.c.cell == evaluations.c.cell,
        ranked.c.grid_index == evaluations.c.grid_index,
    )
    losses = _losses(evaluations).join_from(evaluations, ranked, is_best)
    return losses.group_by(evaluations.c.cell).subquery("end")


def _losses(evaluations: CTE) -> Select[*tuple[object, ...]]:
    return select(
        evaluations.c.cell,
        _loss_of(VALIDATION, evaluations).label("validation_loss"),
        _loss_of(RETENTION, evaluations).label("retention_loss"),
    )


def _loss_of(split: str, evaluations: CTE) -> ColumnElement[float]:
    """The split's only loss among the rows of a group."""
    return func.max(case((evaluations.c.split == split, evaluations.c.loss)))
