"""Arms that were added to a study, round by round, after those of its study file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, RowMapping, func, select, update

from sweeper.selection.chain import EntryKind
from sweeper.selection.evidence import Arm
from sweeper.store import chain
from sweeper.store.database import Database
from sweeper.store.planning import PlannedCell, add_cells, read_study
from sweeper.store.status import CellStatus
from sweeper.store.tables import CELL, STUDY


class RecordedRounds:
    """The arms of one study; see `StudyStore` on transactions and threads.

    Raises:
        StoreError: From every method: the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def arms(self) -> tuple[Arm, ...]:
        """Returns the arms: those of the study file in declared order, then the added ones."""
        return self._database.read(arms)

    def add(self, cells: Sequence[PlannedCell], facts: Mapping[str, object]) -> bool:
        """Adds the cells of the next round, and lets the study go on.

        Args:
            facts: What the chain is told of it.

        Returns:
            False, and nothing changes, unless it is the next round and every cell has ended.
        """
        return self._database.write(lambda c: add_round(c, cells, facts))


def arms(connection: Connection) -> tuple[Arm, ...]:
    """Returns the arms: those of the study file in declared order, then the added ones by round."""
    study = read_study(connection)
    declared = {} if study is None else study.arms
    query = select(CELL).where(CELL.c.round > 0).order_by(CELL.c.round, CELL.c.position)
    added = {row["arm"]: row for row in connection.execute(query).mappings()}
    return (
        *(Arm(name=name, value=value) for name, value in declared.items()),
        *(Arm(name=name, value=_value(row), round=row["round"]) for name, row in added.items()),
    )


def add_round(
    connection: Connection, cells: Sequence[PlannedCell], facts: Mapping[str, object]
) -> bool:
    """Adds the cells of the next round; see `RecordedRounds.add`."""
    connection.execute(select(STUDY.c.id).with_for_update())  # one after another
    last = connection.execute(select(func.max(CELL.c.round))).scalar_one()
    is_open = CELL.c.status != CellStatus.ENDED.value
    still_open = connection.execute(select(func.count()).where(is_open)).scalar_one()
    if still_open or any(cell.round != last + 1 for cell in cells):
        return False
    add_cells(connection, cells)
    connection.execute(update(STUDY).values(ended_why=None, ended_at=None))
    chain.append(connection, EntryKind.NOTE, facts)
    return True


def _value(row: RowMapping) -> float | str:
    number, text = row["value_number"], row["value_text"]
    value: float | str = number if text is None else text
    return value
