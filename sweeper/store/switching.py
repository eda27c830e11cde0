"""Puts a database that was built beside another one in its place; the other one is kept."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, text

from sweeper.errors import Fault, RunFolderError
from sweeper.files import bring_to_disk
from sweeper.store.database import run_once
from sweeper.store.engine import drop_place, open_engine

_SIDECARS = ("", "-wal", "-shm", "-journal")
"""Endings of the files of one SQLite database, the database itself first."""


def remove_built_file(file: Path) -> None:
    """Removes what a call before this one may have built and not put in place."""
    for ending in _SIDECARS:
        file.with_name(file.name + ending).unlink(missing_ok=True)


def switch_file(built: Path, target: Path) -> Path | None:
    """Puts the built SQLite file in the target's place.

    Whoever is killed half-way leaves no target, or a whole one, and the old one aside.

    Returns:
        The folder in which the old one lies now; None if there was none.

    Raises:
        RunFolderError: A file cannot be moved.
    """
    try:
        _make_one_file(built)
        aside = _put_aside(target)
        built.replace(target)
        bring_to_disk(target.parent)
    except OSError as error:
        what = "the database cannot be put in its place"
        got = f"{error.strerror}: {error.filename}"
        raise RunFolderError(Fault(what=what, where=str(target), got=got)) from error
    return aside


def _make_one_file(file: Path) -> None:
    """Brings everything of a database that nobody has open into its one file, on the disk."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bring_to_disk(file)


def _put_aside(target: Path) -> Path | None:
    own = [target.with_name(target.name + ending) for ending in _SIDECARS]
    present = [file for file in own if file.exists()]
    if not present:
        return None
    number = 1
    while (aside := target.with_name(f"{target.name}.aside-{number}")).exists():
        number += 1
    aside.mkdir(mode=0o700)
    for file in present:
        file.replace(aside / file.name)
    return aside


def remove_built_schema(url: str) -> None:
    """Drops the schema that a call before this one may have built and not put in place.

    Raises:
        StoreError: The database cannot be used.
    """
    engine = open_engine(url)
    try:
        run_once(engine, drop_place)
    finally:
        engine.dispose()


def switch_schema(url: str, *, built: str, target: str, asides: tuple[str, ...]) -> str | None:
    """Gives the built PostgreSQL schema the target's name, in one transaction.

    Args:
        asides: Names for the schema that has the target's name, of which the first free one is
            taken.

    Returns:
        The name that the old schema has now; None if there was none.

    Raises:
        StoreError: The database cannot be used.
    """

    def work(connection: Connection) -> str | None:
        aside = None
        if _is_there(connection, target):
            aside = next(name for name in asides if not _is_there(connection, name))
            _rename(connection, target, aside)
        _rename(connection, built, target)
        return aside

    engine = open_engine(url)
    try:
        return run_once(engine, work)
    finally:
        engine.dispose()


def _is_there(connection: Connection, schema: str) -> bool:
    query = text("SELECT count(*) FROM pg_namespace WHERE nspname = :name")
    return bool(connection.execute(query, {"name": schema}).scalar_one())


def _rename(connection: Connection, schema: str, name: str) -> None:
    assert '"' not in schema + name, "names of studies have no quotes"
    connection.exec_driver_sql(f'ALTER SCHEMA "{schema}" RENAME TO "{name}"')
