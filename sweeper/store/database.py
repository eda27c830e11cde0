"""Transactions: short, whole, tried again while another process holds the lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sweeper.errors import Fault, StoreError
from sweeper.store.engine import is_busy, open_engine

T = TypeVar("T")

PAUSES_SECONDS = (0.1, 0.5, 2.0)
"""Waits between the tries of a transaction that found the database busy."""


class Database:
    """A database with one engine for writing and one for reading.

    Safe to use from several threads: writers of one process take turns, readers wait for
    nobody. Owns its engines; `close` gives them back. Not to be used after a fork.
    """

    def __init__(self, *, reader: Engine, writer: Engine | None) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = threading.Lock()

    @classmethod
    def for_writing(cls, url: str, prepare: Callable[[Connection], None]) -> Database:
        """Opens the database for both, after `prepare` has run in a transaction.

        Raises:
            StoreError: It cannot be opened.
        """
        writer = open_engine(url)
        try:
            run(writer, prepare)
            return cls(reader=open_engine(url, read_only=True), writer=writer)
        except BaseException:
            writer.dispose()
            raise

    @classmethod
    def for_reading(cls, url: str, check: Callable[[Connection], None]) -> Database:
        """Opens the database for reading only, after `check` has looked at it.

        Raises:
            StoreError: It cannot be opened.
        """
        reader = open_engine(url, read_only=True)
        try:
            run(reader, check)
        except BaseException:
            reader.dispose()
            raise
        return cls(reader=reader, writer=None)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in one transaction that nobody else's write can come between.

        `work` may run more than once, but takes effect once or not at all.

        Raises:
            StoreError: Opened for reading only, still busy after the last try, or not writable.
        """
        if self._writer is None:
            raise StoreError("the study database was opened for reading only")
        with self._turn:
            return run(self._writer, work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one snapshot of the database, without keeping any writer waiting.

        Raises:
            StoreError: The database cannot be read.
        """
        return run(self._reader, work)

    def close(self) -> None:
        """Closes every connection; the database is not to be used afterwards."""
        self._reader.dispose()
        if self._writer is not None:
            self._writer.dispose()


def run(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Runs `work` in a transaction of the engine; tries again while the database is busy.

    Raises:
        StoreError: It stayed busy, or something else is wrong with the database.
    """
    for pause_seconds in (*PAUSES_SECONDS, None):
        try:
            with engine.begin() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            if pause_seconds is None or not is_busy(error):
                raise _store_error(engine, error) from error
            time.sleep(pause_seconds)
    raise AssertionError("the last try returns or raises")


def _store_error(engine: Engine, error: SQLAlchemyError) -> StoreError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return StoreError(
        Fault(
            what="the study database cannot be used",
            where=engine.url.render_as_string(),
            got=f"{type(cause).__name__}: {cause}",
            hint=_way_on(str(cause)),
        )
    )


def _way_on(trouble: str) -> str:
    if "not a database" in trouble or "malformed" in trouble:
        return (
            "The file is damaged: restore it from a copy, or start under another name with --as. "
            "What the trials wrote is in their folders"
        )
    return "What the trials wrote is safe in their folders: run the study again"
