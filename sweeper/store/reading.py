"""What is on record, as plain values: rows with the views' columns, and a few typed facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    RowMapping,
    Table,
    and_,
    cast,
    column,
    func,
    select,
    table,
)

from sweeper.errors import Fault, StoreError
from sweeper.records import Event, Outcome, OutcomeKind, Reason, Skip, decode
from sweeper.store.decoding import (
    checked,
    decoded,
    decoded_or_none,
    json_texts,
    json_texts_by_name,
)
from sweeper.store.endings import Cost
from sweeper.store.engine import DatabaseTime
from sweeper.store.history import counts_in, lineage
from sweeper.store.plain import to_time
from sweeper.store.planning import RecordedStudy, has_study, read_study
from sweeper.store.status import CellStatus
from sweeper.store.tables import ATTEMPT, CELL, LATE_RESULT, NOTE, UPDATE
from sweeper.store.views import TRIALS, view_queries

Row = dict[str, object]
"""A row of a view: column names in the view's order, None where a value is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    """Where one cell stands.

    Attributes:
        cell: `arm/seed`.
        value: The factor's value.
        outcome: None unless it has ended.
        reason: Likewise.
        detail: Of the outcome, or why a `not_run` cell never started.
        attempts: How many were begun.
        round: In which round its arm was added; 0 for one of the study file.
    """

    cell: str
    arm: str
    seed: int
    value: float | str
    status: CellStatus
    outcome: OutcomeKind | None
    reason: Reason | None
    detail: str | None
    attempts: int
    optuna_number: int | None
    round: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What an attempt at a cell started from.

    Attributes:
        resumed_after_window: The last window of the checkpoint that it went on from, 0 without one;
            None before that is known.
        resume_differences: What was not as it was when the checkpoint was made, as sentences.
        environment: As the trial reported it, by field.
        configuration: What the trial was told, by dotted key, values as JSON.
    """

    cell: str
    arm: str
    seed: int
    attempt: int
    resumed_after_window: int | None
    resume_differences: tuple[str, ...]
    initial_digest: str
    trainable_parameters: int
    adapted_modules: tuple[str, ...]
    environment: Mapping[str, str]
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent:
    """A fact that is neither an update nor an evaluation, with the attempt it belongs to."""

    cell: str
    attempt: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResult:
    """What an attempt claimed after its cell had been taken from it."""

    cell: str
    attempt: int
    outcome: Outcome
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Windows of a cell's attempts that are not in its history, because they were done again."""

    windows: int
    target_tokens: int
    seconds: float


def the_study(connection: Connection) -> RecordedStudy:
    """Returns the recorded study.

    Raises:
        StoreError: There is none yet, or what is recorded of it cannot be read.
    """
    study = read_study(connection)
    if study is None:
        raise StoreError(
            Fault(
                what="the database holds no study yet",
                where=connection.engine.url.render_as_string(),
                hint="Start the study with `sweeper run`",
            )
        )
    return study


def age_seconds(connection: Connection) -> float:
    """Returns how long ago the study began, by the database's clock.

    Raises:
        StoreError: There is none yet.
    """
    began = the_study(connection).created_at
    assert began is not None, "the database fills it in"
    now = to_time(connection.execute(select(DatabaseTime())).scalar_one())
    return (now - began).total_seconds()


def view_rows(
    connection: Connection, view: str, *, cell: str | None, order: tuple[str, ...] = ()
) -> list[Row]:
    """Returns the rows of a view in plan order, then by `order`; of one cell if it is given.

    Raises:
        StoreError: There is no study yet.
    """
    columns = _columns(connection, view)
    rows = table(view, *(column(c.name, c.type) for c in columns))
    query = (
        select(rows)
        .join_from(rows, CELL, CELL.c.cell == rows.c.trial)
        .order_by(CELL.c.position, *(rows.c[name] for name in order))
    )
    if cell is not None:
        query = query.where(rows.c.trial == cell)
    found = checked(connection.execute(query).mappings(), columns, of=view)
    for name in _WORDS.keys() & {c.name for c in columns}:
        for row in found:
            decoded_or_none(row, name, _WORDS[name], of=f"{view}, trial {row['trial']}")
    return found


_WORDS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {"status": CellStatus, "outcome": OutcomeKind, "reason": Reason, "skip": Skip}
)
"""Columns of views with words of closed sets."""


def _columns(connection: Connection, view: str) -> list[ColumnElement[object]]:
    """Returns the columns of a view; those of the trials are the study's, others always the same.

    Raises:
        StoreError: There is no study yet, or what is recorded of it is asked for and unreadable.
    """
    if view == TRIALS or not has_study(connection):
        study = the_study(connection)
        queries = view_queries(
            study.factor_key,
            is_text=study.factor_is_text,
            best_validation=study.is_best_validation,
        )
    else:
        queries = view_queries("factor", is_text=False, best_validation=False)
    return list(queries[view].selected_columns)


def repeated_work(connection: Connection) -> dict[str, Repeated]:
    """Returns what is not in each cell's history, by cell; cells without such work are left out."""
    attempts = lineage()
    counted = (
        select(UPDATE.c.cell, UPDATE.c.attempt, UPDATE.c.sequence)
        .join_from(attempts, UPDATE, counts_in(attempts, UPDATE))
        .subquery("counted")
    )
    same = and_(
        counted.c.cell == UPDATE.c.cell,
        counted.c.attempt == UPDATE.c.attempt,
        counted.c.sequence == UPDATE.c.sequence,
    )
    query = (
        select(
            UPDATE.c.cell,
            func.count().label("windows"),
            cast(func.sum(UPDATE.c.target_tokens), BigInteger).label("target_tokens"),
            func.sum(UPDATE.c.seconds, type_=Double()).label("seconds"),
        )
        .join_from(UPDATE, counted, same, isouter=True)
        .where(counted.c.cell.is_(None))
        .group_by(UPDATE.c.cell)
    )
    return {
        row.cell: Repeated(
            windows=row.windows, target_tokens=row.target_tokens, seconds=row.seconds
        )
        for row in connection.execute(query)
    }


def cell_records(connection: Connection) -> tuple[CellRecord, ...]:
    """Returns every cell, in plan order."""
    query = select(CELL).order_by(CELL.c.position)
    return tuple(_cell_record(row) for row in connection.execute(query).mappings())


def starts(connection: Connection) -> tuple[Start, ...]:
    """Returns what each cell's latest attempt that got so far started from, in plan order."""
    same_cell = select(func.max(_STARTED.c.attempt)).where(
        _STARTED.c.cell == CELL.c.cell, _STARTED.c.initial_digest.is_not(None)
    )
    query = (
        select(ATTEMPT, CELL.c.arm, CELL.c.seed)
        .join_from(CELL, ATTEMPT, ATTEMPT.c.cell == CELL.c.cell)
        .where(ATTEMPT.c.attempt == same_cell.correlate(CELL).scalar_subquery())
        .order_by(CELL.c.position)
    )
    return tuple(_start(row) for row in connection.execute(query).mappings())


_STARTED = ATTEMPT.alias("started")


def stretches(connection: Connection) -> tuple[Start, ...]:
    """Returns what every attempt in a trial's history started from, in plan order, first first."""
    attempts = lineage()
    query = (
        select(ATTEMPT, CELL.c.arm, CELL.c.seed)
        .join_from(CELL, attempts, attempts.c.cell == CELL.c.cell)
        .join(
            ATTEMPT,
            (ATTEMPT.c.cell == attempts.c.cell) & (ATTEMPT.c.attempt == attempts.c.attempt),
        )
        .where(ATTEMPT.c.initial_digest.is_not(None))
        .order_by(CELL.c.position, ATTEMPT.c.attempt)
    )
    return tuple(_start(row) for row in connection.execute(query).mappings())


def notes(connection: Connection, *, cell: str | None) -> tuple[AttemptEvent, ...]:
    """Returns the facts of all attempts that are no updates and no evaluations, in order."""
    query = (
        select(NOTE.c.cell, NOTE.c.attempt, NOTE.c.line)
        .join_from(CELL, NOTE, NOTE.c.cell == CELL.c.cell)
        .order_by(CELL.c.position, NOTE.c.attempt, NOTE.c.sequence)
    )
    if cell is not None:
        query = query.where(NOTE.c.cell == cell)
    return tuple(
        AttemptEvent(
            cell=row["cell"],
            attempt=row["attempt"],
            event=decoded(row, "line", decode, of=_attempt(NOTE, row)),
        )
        for row in connection.execute(query).mappings()
    )


def late_results(connection: Connection) -> tuple[LateResult, ...]:
    """Returns what was stored apart, in the order it came."""
    query = select(LATE_RESULT).order_by(LATE_RESULT.c.recorded_at, LATE_RESULT.c.cell)
    return tuple(
        LateResult(
            cell=row["cell"],
            attempt=row["attempt"],
            outcome=_outcome(LATE_RESULT, row),
            cost=Cost(
                wall_seconds=row["wall_seconds"],
                peak_memory_bytes=row["peak_memory_bytes"],
                exit_status=row["exit_status"],
            ),
        )
        for row in connection.execute(query).mappings()
    )


def outcome_of_attempt(connection: Connection, *, cell: str, attempt: int) -> Outcome | None:
    """Returns how the attempt ended; None while it has not."""
    query = select(ATTEMPT).where(ATTEMPT.c.cell == cell, ATTEMPT.c.attempt == attempt)
    row = connection.execute(query).mappings().one()
    return None if row["reason"] is None else _outcome(ATTEMPT, row)


def _outcome(table: Table, row: RowMapping) -> Outcome:
    of = _attempt(table, row)
    return Outcome(
        reason=decoded(row, "reason", Reason, of=of),
        detail=row["detail"],
        evidence=decoded(row, "evidence", json_texts_by_name, of=of),
    )


def _attempt(table: Table, row: RowMapping) -> str:
    """Returns which row it is."""
    return f"{table.name}, cell {row['cell']}, attempt {row['attempt']}"


def _cell_record(row: RowMapping) -> CellRecord:
    checked([row], CELL.c, of=CELL.name)
    of = f"{CELL.name}, cell {row['cell']}"
    number, text = row["value_number"], row["value_text"]
    return CellRecord(
        cell=row["cell"],
        arm=row["arm"],
        seed=row["seed"],
        value=number if text is None else text,
        status=decoded(row, "status", CellStatus, of=of),
        outcome=decoded_or_none(row, "outcome", OutcomeKind, of=of),
        reason=decoded_or_none(row, "reason", Reason, of=of),
        detail=row["detail"],
        attempts=row["attempts"],
        optuna_number=row["optuna_number"],
        round=row["round"],
    )


def _start(row: RowMapping) -> Start:
    checked([row], ATTEMPT.c, of=ATTEMPT.name)
    of = _attempt(ATTEMPT, row)
    return Start(
        cell=row["cell"],
        arm=row["arm"],
        seed=row["seed"],
        attempt=row["attempt"],
        resumed_after_window=row["resumed_after_window"],
        resume_differences=decoded_or_none(row, "resume_differences", json_texts, of=of) or (),
        initial_digest=row["initial_digest"],
        trainable_parameters=row["trainable_parameters"],
        adapted_modules=decoded(row, "adapted_modules", json_texts, of=of),
        environment=decoded(row, "environment", json_texts_by_name, of=of),
        configuration=decoded(row, "configuration", json_texts_by_name, of=of),
    )
