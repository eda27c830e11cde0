"""The schema of the database: created once, whoever comes first, and never guessed at."""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select

from sweeper.errors import Fault, StoreError
from sweeper.store.decoding import checked
from sweeper.store.engine import DatabaseTime, hold_creation_lock, make_place
from sweeper.store.tables import METADATA, SCHEMA

VERSION = 5
"""Raised whenever a table or a view changes its meaning."""


def create_schema(connection: Connection) -> None:
    """Creates the tables, or checks those that are there; many processes may call it at once.

    Raises:
        StoreError: The database has another schema version.
    """
    hold_creation_lock(connection)
    make_place(connection)
    if inspect(connection).has_table(SCHEMA.name):
        check_schema(connection)
        METADATA.create_all(connection)  # a table that came later, beside those that are there
        return
    METADATA.create_all(connection)
    connection.execute(insert(SCHEMA).values(id=1, version=VERSION, created_at=DatabaseTime()))


def check_schema(connection: Connection) -> None:
    """Makes sure that the database is one of ours, in the version that this code reads.

    Raises:
        StoreError: It is not; both versions are named. Or the version cannot be read.
    """
    if not inspect(connection).has_table(SCHEMA.name):
        raise StoreError(
            Fault(
                what="the database holds no study of sweeper",
                where=connection.engine.url.render_as_string(),
                hint="Start the study with `sweeper run`",
            )
        )
    row = connection.execute(select(SCHEMA.c.version)).mappings().one()
    checked([row], [SCHEMA.c.version], of=SCHEMA.name)
    version = row["version"]
    if version != VERSION:
        raise StoreError(
            Fault(
                what="the study database has a schema this sweeper does not know",
                where=connection.engine.url.render_as_string(),
                got=f"version {version}",
                expected=f"version {VERSION}",
                hint=_way_on(version),
            )
        )


def _way_on(version: int) -> str:
    if version > VERSION:
        return "It was written by a newer sweeper: install that one"
    return "It was written by an older sweeper: read it with that one, or start the study anew"
