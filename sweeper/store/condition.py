"""What state a database is in, before anybody trusts it or puts another in its place."""

from __future__ import annotations

import contextlib
import sqlite3
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, func, inspect, select, table

from sweeper.errors import StoreError, StoreForbidden, StoreUnavailable
from sweeper.store.database import run
from sweeper.store.engine import (
    SQLITE,
    hold_creation_lock,
    make_place,
    open_engine,
    sqlite_file,
)
from sweeper.store.planning import read_study
from sweeper.store.schema import VERSION
from sweeper.store.tables import METADATA, SCHEMA
from sweeper.store.views import ATTEMPTS, EVALUATIONS, TRIALS, UPDATES

_MAGIC = b"SQLite format 3\0"


class Condition(StrEnum):
    """What a study's database is good for."""

    ABSENT = "absent"
    EMPTY = "empty"
    """There is no study in it."""
    WHOLE = "whole"
    OTHER_VERSION = "other_version"
    """A study of another version of sweeper; it may well be whole."""
    BROKEN = "broken"


def condition_of(url: str) -> Condition:
    """Looks at all tables and views of the database, and changes nothing.

    Raises:
        StoreUnavailable: It cannot be reached, or is busy: its condition is not known.
        StoreForbidden: This user may not look at it.
    """
    if url.startswith(SQLITE):
        file = sqlite_file(url)
        if not file.exists():
            return Condition.ABSENT
        if not _is_sound(file):
            return Condition.BROKEN
    engine = open_engine(url, read_only=True)
    try:
        return run(engine, _look)
    except (StoreUnavailable, StoreForbidden):
        raise
    except (StoreError, ValueError):
        return Condition.BROKEN
    finally:
        engine.dispose()


def try_place(url: str) -> None:
    """Connects once, and makes the place of a new study for a trial: nothing of it stays.

    Raises:
        StoreError: A study cannot be founded there.
    """
    engine = open_engine(url)
    try:
        run(engine, _make_and_take_back)
    finally:
        engine.dispose()


def _make_and_take_back(connection: Connection) -> None:
    hold_creation_lock(connection)
    with connection.begin_nested() as made:
        make_place(connection)
        made.rollback()


def _is_sound(file: Path) -> bool:
    """Whether the pages of an SQLite file fit together; the files beside it are left as they are.

    SQLite deletes the log of a file that has no pages, and that may be all there is of it.
    """
    with file.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            return False
    try:
        reader = sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)
        with contextlib.closing(reader):
            return bool(reader.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def _look(connection: Connection) -> Condition:
    names = set(inspect(connection).get_table_names())
    if not names:
        return Condition.EMPTY
    if SCHEMA.name not in names:
        return Condition.BROKEN
    if connection.execute(select(SCHEMA.c.version)).scalar_one_or_none() != VERSION:
        return Condition.OTHER_VERSION
    if read_study(connection) is None:
        return Condition.EMPTY
    views = [table(name) for name in (TRIALS, UPDATES, EVALUATIONS, ATTEMPTS)]
    for each in (*METADATA.sorted_tables, *views):
        connection.execute(select(func.count()).select_from(each)).scalar_one()
    return Condition.WHOLE
