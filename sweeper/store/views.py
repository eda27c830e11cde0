"""The views that users query, and the columns they can count on, in this order.

A trial's numbers are those of its history (`history`): every window once, whatever was done again
after a loss. What it cost sums all attempts. An endpoint (`validation_loss`, `retention_loss`) is
there for completed trials only, because a loss at another place in the budget is not comparable;
every evaluation is in `sweeper_evaluations`.

Two things differ from study to study, so the views are created with the study: the last key of its
factor names a column of `sweeper_trials`, and its rule says where the endpoint is. Each select
below is both the view and the list of its columns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TypeVar

from sqlalchemy import (
    CTE,
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
from sweeper.store.endpoints import best, initial, last
from sweeper.store.history import counts_in, evaluations_of, lineage
from sweeper.store.tables import ATTEMPT, CELL, STUDY, UPDATE

TRIALS = "sweeper_trials"
UPDATES = "sweeper_updates"
EVALUATIONS = "sweeper_evaluations"
ATTEMPTS = "sweeper_attempts"

T = TypeVar("T")

_KEYS = ("cell", "attempt", "sequence")


def create_views(
    connection: Connection, factor_key: str, *, is_text: bool, best_validation: bool
) -> None:
    """Creates the views of a study; see `view_queries`.

    Raises:
        StoreError: The factor's last key cannot name a column.
    """
    queries = view_queries(factor_key, is_text=is_text, best_validation=best_validation)
    for name, query in queries.items():
        body = query.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {body}")


@functools.cache
def view_queries(
    factor_key: str, *, is_text: bool, best_validation: bool
) -> Mapping[str, Select[*tuple[object, ...]]]:
    """Returns the select behind each view, by the view's name.

    Args:
        factor_key: Its last part names the factor's column.
        is_text: Whether the factor takes words, not numbers.
        best_validation: Whether the endpoint is at the lowest validation loss, not at the last.

    Raises:
        StoreError: The factor's last key cannot name a column.
    """
    factor = CELL.c.value_text if is_text else CELL.c.value_number
    return {
        TRIALS: _trials(factor.label(_factor_name(factor_key)), best_validation=best_validation),
        UPDATES: _updates(),
        EVALUATIONS: _evaluations(),
        ATTEMPTS: _attempts(),
    }


def _trials(factor: ColumnElement[object], *, best_validation: bool) -> Select[*tuple[object, ...]]:
    latest = ATTEMPT.alias("latest")
    attempts = lineage()
    evaluations = evaluations_of(attempts)
    counts, costs = _counts(attempts), _costs()
    start = initial(evaluations)
    end = best(evaluations) if best_validation else last(evaluations, counts)
    return (
        select(
            CELL.c.cell.label("trial"),
            CELL.c.arm,
            CELL.c.seed,
            factor,
            CELL.c.round,
            CELL.c.status,
            CELL.c.outcome,
            CELL.c.reason,
            CELL.c.detail,
            start.c.validation_loss.label("initial_loss"),
            _in_window(UPDATE.c.loss, 1, attempts).label("first_window_loss"),
            _if_completed(end.c.validation_loss).label("validation_loss"),
            _in_window(UPDATE.c.loss, counts.c.last_finite_window, attempts).label(
                "last_finite_loss"
            ),
            start.c.retention_loss.label("retention_initial_loss"),
            _if_completed(end.c.retention_loss).label("retention_loss"),
            *(_zero_once_started(counts.c[name]) for name in _COUNTS),
            costs.c.wall_seconds,
            costs.c.peak_memory_bytes,
            CELL.c.attempts,
            latest.c.adapter_path,
            latest.c.best_path,
            _latest_started(ATTEMPT.c.initial_digest).label("initial_digest"),
            _in_window(UPDATE.c.record_digest, counts.c.windows_read, attempts).label(
                "record_digest"
            ),
            CELL.c.optuna_number,
            select(STUDY.c.fingerprint).scalar_subquery().label("fingerprint"),
        )
        .select_from(CELL)
        .outerjoin(latest, and_(latest.c.cell == CELL.c.cell, latest.c.attempt == CELL.c.attempts))
        .outerjoin(counts, counts.c.cell == CELL.c.cell)
        .outerjoin(costs, costs.c.cell == CELL.c.cell)
        .outerjoin(start, start.c.cell == CELL.c.cell)
        .outerjoin(end, end.c.cell == CELL.c.cell)
    )


def _updates() -> Select[*tuple[object, ...]]:
    attempts = lineage()
    return (
        select(*_columns(UPDATE))
        .select_from(CELL)
        .join(attempts, attempts.c.cell == CELL.c.cell)
        .join(UPDATE, counts_in(attempts, UPDATE))
    )


def _evaluations() -> Select[*tuple[object, ...]]:
    evaluations = evaluations_of(lineage())
    return select(*_columns(evaluations)).join_from(
        CELL, evaluations, evaluations.c.cell == CELL.c.cell
    )


def _columns(rows: Table | CTE) -> list[ColumnElement[object]]:
    """Returns the columns of a view of facts that attempts reported."""
    facts = rows.c
    named = [fact for name, fact in facts.items() if name not in (*_KEYS, "at")]
    trial = CELL.c.cell.label("trial")
    return [
        trial, CELL.c.arm, CELL.c.seed, facts["attempt"], facts["sequence"], *named, facts["at"]
    ]  # fmt: skip


def _attempts() -> Select[*tuple[object, ...]]:
    facts = [c for c in ATTEMPT.c if c.name not in ("cell", "attempt", "last_sequence", "token")]
    made = (
        select(func.count())
        .select_from(UPDATE)
        .where(UPDATE.c.cell == ATTEMPT.c.cell, UPDATE.c.attempt == ATTEMPT.c.attempt, UPDATE.c.ran)
        .scalar_subquery()
        .label("updates")
    )
    return select(
        CELL.c.cell.label("trial"), CELL.c.arm, CELL.c.seed, ATTEMPT.c.attempt, made, *facts
    ).join_from(CELL, ATTEMPT, ATTEMPT.c.cell == CELL.c.cell)


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


def _counts(attempts: CTE) -> Subquery:
    """What each trial read and applied; cumulative columns have their total as the largest."""
    finite = case((UPDATE.c.loss.is_not(None), UPDATE.c.window))
    return (
        select(
            UPDATE.c.cell,
            func.max(UPDATE.c.target_tokens_read).label("target_tokens_read"),
            func.max(UPDATE.c.target_tokens_applied).label("target_tokens_applied"),
            _sum(UPDATE.c.records).label("records"),
            _sum(UPDATE.c.input_tokens).label("input_tokens"),
            _sum(UPDATE.c.padding_tokens).label("padding_tokens"),
            func.count().label("windows"),
            func.max(UPDATE.c.updates).label("updates"),
            _sum(case((UPDATE.c.ran, 0), else_=1)).label("skipped"),
            _sum(case((UPDATE.c.clipped, 1), else_=0)).label("clipped"),
            func.max(UPDATE.c.window).label("windows_read"),
            func.max(finite).label("last_finite_window"),
        )
        .join_from(attempts, UPDATE, counts_in(attempts, UPDATE))
        .group_by(UPDATE.c.cell)
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


def _if_completed(loss: ColumnElement[float]) -> ColumnElement[float]:
    return case((CELL.c.outcome == OutcomeKind.COMPLETED.value, loss))


def _in_window(
    fact: Column[T], window: ColumnElement[int] | int, attempts: CTE
) -> ColumnElement[T]:
    """The fact from one window of the trial's history."""
    return (
        select(fact)
        .join_from(attempts, UPDATE, counts_in(attempts, UPDATE))
        .where(UPDATE.c.cell == CELL.c.cell, UPDATE.c.window == window)
        .limit(1)
        .scalar_subquery()
    )


def _latest_started(fact: Column[T]) -> ColumnElement[T]:
    """The fact from the last attempt that said what it starts from."""
    return (
        select(fact)
        .where(ATTEMPT.c.cell == CELL.c.cell, ATTEMPT.c.initial_digest.is_not(None))
        .order_by(ATTEMPT.c.attempt.desc())
        .limit(1)
        .correlate(CELL)
        .scalar_subquery()
    )


def _factor_name(factor_key: str) -> str:
    name = factor_key.rpartition(".")[2]
    trials = _trials(CELL.c.value_number, best_validation=False)
    taken = {column.name for column in trials.selected_columns}
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None or name in taken:
        raise StoreError(
            Fault(
                what="the compared key cannot name a column of the trials",
                got=factor_key,
                expected="small letters, digits, underscores; no name that trials have anyway",
            )
        )
    return name
