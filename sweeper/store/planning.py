"""The study and its cells: written once, in one order, and closed when the study ends early."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from sweeper.errors import Fault, StoreError, StudyConflict
from sweeper.selection.chain import EntryKind
from sweeper.store import chain
from sweeper.store.decoding import (
    checked,
    decoded,
    decoded_or_none,
    json_integers,
    json_object,
)
from sweeper.store.engine import DatabaseTime, hold_creation_lock
from sweeper.store.plain import storable, to_json, to_time
from sweeper.store.status import CellStatus
from sweeper.store.tables import CELL, STUDY
from sweeper.store.views import create_views


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStudy:
    """The study that a database is about.

    Attributes:
        protocol: What the fingerprint was taken of.
        study_yaml: The study file as it was when the study began.
        factor_key: The compared key, for instance `training.learning_rate`.
        arms: The factor's value in each arm of the study file, in declared order; see `rounds`
            for those that were added.
        created_at: By the database's clock; filled in by it.
        ended_why: Why the study ended; None while it may go on. Filled in by `end_study`.
        ended_at: When.
    """

    name: str
    fingerprint: str
    protocol: Mapping[str, object]
    study_yaml: str
    factor_key: str
    arms: Mapping[str, float | str]
    seeds: tuple[int, ...]
    budget_target_tokens: int
    created_at: datetime | None = None
    ended_why: str | None = None
    ended_at: datetime | None = None

    @property
    def factor_is_text(self) -> bool:
        """Whether the factor's values are words, not numbers."""
        return any(isinstance(value, str) for value in self.arms.values())

    @property
    def is_best_validation(self) -> bool:
        """Whether a trial counts by its lowest validation loss, not by its last."""
        selection = self.protocol.get("selection")
        rules = selection if isinstance(selection, Mapping) else {}
        return rules.get("checkpoint") == "best_validation"


class PlannedCell(Protocol):
    """A cell as the plan has it."""

    @property
    def id(self) -> str:
        """`arm/seed`."""

    @property
    def arm(self) -> str:
        """The arm's name."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def value(self) -> float | str:
        """The factor's value."""

    @property
    def round(self) -> int:
        """In which round its arm was added; 0 for one of the study file."""


def record_study(connection: Connection, study: RecordedStudy, data: Mapping[str, object]) -> None:
    """Records the study and creates its views; the same study again changes nothing.

    Args:
        data: What was prepared for it, see `study.data_facts`; for its entry in the chain.

    Raises:
        StudyConflict: The database holds a study with another fingerprint.
    """
    hold_creation_lock(connection)
    known = read_study(connection)
    if known is not None:
        _check_same(known, study)
        return
    connection.execute(
        insert(STUDY).values(
            id=1,
            name=study.name,
            fingerprint=study.fingerprint,
            protocol=to_json(study.protocol),
            study_yaml=storable(study.study_yaml),
            factor_key=study.factor_key,
            arms=to_json(list(study.arms.items())),
            seeds=to_json(study.seeds),
            budget_target_tokens=study.budget_target_tokens,
            created_at=DatabaseTime(),
        )
    )
    create_views(
        connection,
        study.factor_key,
        is_text=study.factor_is_text,
        best_validation=study.is_best_validation,
    )
    created = {"study": study.name, "protocol": study.fingerprint, "data": dict(data)}
    chain.append_once(connection, EntryKind.STUDY_CREATED, created)


def read_study(connection: Connection) -> RecordedStudy | None:
    """Returns the recorded study; None before there is one.

    Raises:
        StoreError: What is recorded of it cannot be read.
    """
    row = connection.execute(select(STUDY)).mappings().one_or_none()
    return None if row is None else _study(row)


def has_study(connection: Connection) -> bool:
    """Says whether a study is on record, also where what is recorded of it cannot be read."""
    return connection.execute(select(func.count()).select_from(STUDY)).scalar_one() > 0


def add_cells(connection: Connection, cells: Iterable[PlannedCell]) -> None:
    """Adds the cells that are not there yet, after those that are, in the given order.

    Raises:
        StoreError: A cell of that id is there with another value.
    """
    known = {row["cell"]: row for row in connection.execute(select(CELL)).mappings()}
    last = connection.execute(select(func.max(CELL.c.position))).scalar_one()
    new = []
    for cell in cells:
        values = _cell_values(cell)
        if cell.id in known:
            _check_same_cell(known[cell.id], values)
        else:
            new.append(values)
    first = 0 if last is None else last + 1
    rows = [row | {"position": first + index} for index, row in enumerate(new)]
    if rows:
        connection.execute(insert(CELL), rows)


def link_optuna(connection: Connection, numbers: Mapping[str, int]) -> None:
    """Records the Optuna trial number of each cell."""
    for cell, number in numbers.items():
        connection.execute(update(CELL).where(CELL.c.cell == cell).values(optuna_number=number))


def end_study(connection: Connection, why: str) -> None:
    """Records why the study ended, the latest time it did."""
    connection.execute(update(STUDY).values(ended_why=storable(why), ended_at=DatabaseTime()))


def close_not_run(connection: Connection, why: str) -> int:
    """Turns cells that never started into `not_run`, ends the study; returns how many."""
    never_started = (CELL.c.status == CellStatus.WAITING.value, CELL.c.attempts == 0)
    closed = connection.execute(
        update(CELL)
        .where(*never_started)
        .values(status=CellStatus.NOT_RUN.value, detail=storable(why))
    )
    end_study(connection, why)
    return closed.rowcount


def reopen_study(connection: Connection) -> int:
    """Lets the study go on: its `not_run` cells wait again; returns how many."""
    reopened = connection.execute(
        update(CELL)
        .where(CELL.c.status == CellStatus.NOT_RUN.value)
        .values(status=CellStatus.WAITING.value, detail=None)
    )
    connection.execute(update(STUDY).values(ended_why=None, ended_at=None))
    return reopened.rowcount


def _check_same(known: RecordedStudy, study: RecordedStudy) -> None:
    if known.fingerprint != study.fingerprint:
        raise StudyConflict(
            Fault(
                what=f"the database holds study {known.name!r} with another fingerprint",
                got=study.fingerprint,
                expected=known.fingerprint,
                hint="Give the changed study a name of its own",
            )
        )


def _check_same_cell(known: RowMapping, values: Mapping[str, object]) -> None:
    names = ("arm", "seed", "round", "value_number", "value_text")
    if any(known[name] != values[name] for name in names):
        raise StoreError(
            Fault(
                what="a planned cell is on record with other values",
                where=str(values["cell"]),
                got=to_json({name: values[name] for name in names}),
                expected=to_json({name: known[name] for name in names}),
            )
        )


def _cell_values(cell: PlannedCell) -> dict[str, object]:
    is_text = isinstance(cell.value, str)
    return {
        "cell": cell.id,
        "arm": cell.arm,
        "seed": cell.seed,
        "round": cell.round,
        "value_number": None if is_text else float(cell.value),
        "value_text": cell.value if is_text else None,
        "status": CellStatus.WAITING.value,
        "attempts": 0,
        "fencing_number": 0,
    }


def _study(raw: RowMapping) -> RecordedStudy:
    of = STUDY.name
    (row,) = checked([raw], STUDY.c, of=of)
    plain = {name: raw[name] for name in _PLAIN}
    return RecordedStudy(
        **plain,
        protocol=decoded(row, "protocol", json_object, of=of),
        arms=decoded(row, "arms", _arms, of=of),
        seeds=decoded(row, "seeds", json_integers, of=of),
        created_at=decoded(row, "created_at", to_time, of=of),
        ended_at=decoded_or_none(row, "ended_at", to_time, of=of),
    )


_PLAIN = (
    *("name", "fingerprint", "study_yaml", "factor_key", "budget_target_tokens"),
    "ended_why",
)
"""Columns that are what they stand for."""


def _arms(text: str) -> dict[str, float | str]:
    """Returns the factor's value of each arm, in declared order.

    Raises:
        ValueError: The text is no list of names and values.
        TypeError: Likewise.
    """
    listed = [(name, value) for name, value in json.loads(text)]
    if not all(type(name) is str and type(value) in (float, int, str) for name, value in listed):
        raise ValueError("no names and values")
    return dict(listed)
