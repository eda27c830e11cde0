"""The views that users query, and the columns they can count on, in this order.

A trial's numbers are those of its latest attempt: a lost attempt starts over, so that every
window appears once. What it cost sums all attempts. An endpoint (`validation_loss`,
`retention_loss`) is there for completed trials only, because a loss at another place in the
budget is not comparable; every evaluation is in `sweeper_evaluations`.

The last key of the study's factor names a column of `sweeper_trials`, so the views are created
with the study. Each select below is both the view and the list of its columns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Select,
    Subquery,
    Table,
    and_,
    case,
    cast,
    func,
    select,
)

from sweeper.errors import Fault, StoreError
from sweeper.records import OutcomeKind
from sweeper.store.tables import ATTEMPT, CELL, EVALUATION, STUDY, UPDATE

TRIALS = "sweeper_trials"
UPDATES = "sweeper_updates"
EVALUATIONS = "sweeper_evaluations"
ATTEMPTS = "sweeper_attempts"

T = TypeVar("T")

_KEYS = ("cell", "attempt", "sequence")


def create_views(connection: Connection, factor_key: str, *, is_text: bool) -> None:
    """Creates the views of a study whose factor takes words, or else numbers.

    Raises:
        StoreError: The factor's last key cannot name a column.
    """
    for name, query in view_queries(factor_key, is_text=is_text).items():
        body = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {body}")


@functools.cache
def view_queries(factor_key: str, *, is_text: bool) -> Mapping[str, Select[*tuple[object, ...]]]:
    """Returns the select behind each view, by the view's name.

    Raises:
        StoreError: The factor's last key cannot name a column.
    """
    factor = CELL.c.value_text if is_text else CELL.c.value_number
    return {
        TRIALS: _trials(factor.label(_factor_name(factor_key))),
        UPDATES: _of_latest_attempt(UPDATE),
        EVALUATIONS: _of_latest_attempt(EVALUATION),
        ATTEMPTS: _attempts(),
    }


def _trials(factor: ColumnElement[object]) -> Select[*tuple[object, ...]]:
    latest = ATTEMPT.alias("latest")
    counts = _counts()
    costs = _costs()
    return (
        select(
            CELL.c.cell.label("trial"),
            CELL.c.arm,
            CELL.c.seed,
            factor,
            CELL.c.status,
            CELL.c.outcome,
            CELL.c.reason,
            CELL.c.detail,
            _initial_loss("validation").label("initial_loss"),
            _update_at_end(UPDATE.c.loss, UPDATE.c.window == 1).label("first_window_loss"),
            _endpoint("validation").label("validation_loss"),
            _update_at_end(UPDATE.c.loss, UPDATE.c.loss.is_not(None)).label("last_finite_loss"),
            _initial_loss("retention").label("retention_initial_loss"),
            _endpoint("retention").label("retention_loss"),
            *(_zero_once_started(counts.c[name]) for name in _COUNTS),
            costs.c.wall_seconds,
            costs.c.peak_memory_bytes,
            CELL.c.attempts,
            latest.c.adapter_path,
            latest.c.initial_digest,
            _update_at_end(UPDATE.c.record_digest).label("record_digest"),
            CELL.c.optuna_number,
            select(STUDY.c.fingerprint).scalar_subquery().label("fingerprint"),
        )
        .select_from(CELL)
        .outerjoin(latest, and_(latest.c.cell == CELL.c.cell, latest.c.attempt == CELL.c.attempts))
        .outerjoin(counts, and_(counts.c.cell == CELL.c.cell, counts.c.attempt == CELL.c.attempts))
        .outerjoin(costs, costs.c.cell == CELL.c.cell)
    )


def _of_latest_attempt(table: Table) -> Select[*tuple[object, ...]]:
    facts = [c for c in table.c if c.name not in (*_KEYS, "at")]
    return select(
        CELL.c.cell.label("trial"),
        CELL.c.arm,
        CELL.c.seed,
        table.c.attempt,
        table.c.sequence,
        *facts,
        table.c.at,
    ).join_from(CELL, table, _is_latest(table))


def _attempts() -> Select[*tuple[object, ...]]:
    facts = [c for c in ATTEMPT.c if c.name not in ("cell", "last_sequence")]
    return select(CELL.c.cell.label("trial"), CELL.c.arm, CELL.c.seed, *facts).join_from(
        CELL, ATTEMPT, ATTEMPT.c.cell == CELL.c.cell
    )


_COUNTS = (
    "target_tokens_read",
    "target_tokens_applied",
    "records",
    "input_tokens",
    "padding_tokens",
    "windows",
    "updates",
    "skipped",
    "clipped",
)


def _counts() -> Subquery:
    """What each attempt read and applied; cumulative columns have their total as the largest."""
    return (
        select(
            UPDATE.c.cell,
            UPDATE.c.attempt,
            func.max(UPDATE.c.target_tokens_read).label("target_tokens_read"),
            func.max(UPDATE.c.target_tokens_applied).label("target_tokens_applied"),
            _sum(UPDATE.c.records).label("records"),
            _sum(UPDATE.c.input_tokens).label("input_tokens"),
            _sum(UPDATE.c.padding_tokens).label("padding_tokens"),
            func.count().label("windows"),
            func.max(UPDATE.c.updates).label("updates"),
            _sum(case((UPDATE.c.ran, 0), else_=1)).label("skipped"),
            _sum(case((UPDATE.c.clipped, 1), else_=0)).label("clipped"),
        )
        .group_by(UPDATE.c.cell, UPDATE.c.attempt)
        .subquery("counts")
    )


def _costs() -> Subquery:
    return (
        select(
            ATTEMPT.c.cell,
            func.sum(ATTEMPT.c.wall_seconds, type_=Double()).label("wall_seconds"),
            func.max(ATTEMPT.c.peak_memory_bytes).label("peak_memory_bytes"),
        )
        .group_by(ATTEMPT.c.cell)
        .subquery("costs")
    )


def _sum(count: ColumnElement[int]) -> ColumnElement[int]:
    """A sum that stays an integer; PostgreSQL would widen it to a decimal."""
    return cast(func.sum(count), BigInteger)


def _zero_once_started(count: ColumnElement[int]) -> ColumnElement[int]:
    return case((CELL.c.attempts > 0, func.coalesce(count, 0))).label(count.key)


def _is_latest(table: Table) -> ColumnElement[bool]:
    return and_(table.c.cell == CELL.c.cell, table.c.attempt == CELL.c.attempts)


def _update_at_end(fact: Column[T], *conditions: ColumnElement[bool]) -> ColumnElement[T]:
    """The fact from the last window that meets the conditions."""
    return (
        select(fact)
        .where(_is_latest(UPDATE), *conditions)
        .order_by(UPDATE.c.sequence.desc())
        .limit(1)
        .correlate(CELL)
        .scalar_subquery()
    )


def _evaluation(split: str, *conditions: ColumnElement[bool]) -> ColumnElement[float]:
    """The loss of the split's last evaluation that meets the conditions."""
    return (
        select(EVALUATION.c.loss)
        .where(_is_latest(EVALUATION), EVALUATION.c.split == split, *conditions)
        .order_by(EVALUATION.c.sequence.desc())
        .limit(1)
        .correlate(CELL)
        .scalar_subquery()
    )


def _initial_loss(split: str) -> ColumnElement[float]:
    return _evaluation(split, EVALUATION.c.grid_index == 0)


def _endpoint(split: str) -> ColumnElement[float]:
    """The loss of the evaluation that a completed trial made after its last window."""
    is_completed = CELL.c.outcome == OutcomeKind.COMPLETED.value
    at_the_end = EVALUATION.c.target_tokens_read == _update_at_end(UPDATE.c.target_tokens_read)
    return case((is_completed, _evaluation(split, at_the_end)))


def _factor_name(factor_key: str) -> str:
    name = factor_key.rpartition(".")[2]
    taken = {c.name for c in _trials(CELL.c.value_number).selected_columns}
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None or name in taken:
        raise StoreError(
            Fault(
                what="the compared key cannot name a column of the trials",
                got=factor_key,
                expected="small letters, digits, underscores; no name that trials have anyway",
            )
        )
    return name
