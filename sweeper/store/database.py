"""Transactions: short, whole, tried again while another process holds the lock."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sweeper.errors import (
    Fault,
    StoreError,
    StoreForbidden,
    StoreUnavailable,
    StoreUnreachable,
)
from sweeper.store.engine import is_busy, may_pass, open_engine
from sweeper.store.exclusion import turn
from sweeper.store.mending import way_to_mend
from sweeper.store.receipt import Receipt, has_taken_effect, receipt_of

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
            run_once(writer, prepare)
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

        `work` may run more than once, but takes effect once or not at all, also where a
        connection ended before it was told which.

        Raises:
            StoreUnavailable: It cannot be reached, or is busy; nothing has taken effect, unless
                the answer to the last try was lost.
            StoreError: Opened for reading only, or not writable.
        """
        if self._writer is None:
            raise StoreError("the study database was opened for reading only")
        with self._turn:
            return run_once(self._writer, work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one snapshot of the database, without keeping any writer waiting.

        Raises:
            StoreUnavailable: The database cannot be reached.
            StoreError: It cannot be read.
        """
        return run(self._reader, work)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """See `exclusion.turn`.

        Raises:
            StoreUnavailable: It cannot be reached, or somebody else has the turn for too long.
            StoreError: Opened for reading only, or not usable.
        """
        if self._writer is None:
            raise StoreError("the study database was opened for reading only")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(turn(self._writer))
            except SQLAlchemyError as error:
                raise _store_error(self._writer, error) from error
            yield

    def close(self) -> None:
        """Closes every connection; the database is not to be used afterwards."""
        self._reader.dispose()
        if self._writer is not None:
            self._writer.dispose()


def run(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Runs `work`, which writes nothing, in a transaction; again while the database is busy.

    Raises:
        StoreUnavailable: It stayed busy, or cannot be reached.
        StoreError: Something else is wrong with the database.
    """

    def transaction() -> T:
        with engine.begin() as connection:
            return work(connection)

    return _with_patience(engine, transaction)


def run_once(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Runs `work` in a transaction that takes effect once or not at all; raises what `run` does."""
    unanswered: tuple[Receipt, T] | None = None

    def transaction() -> T:
        nonlocal unanswered
        if unanswered is not None and has_taken_effect(engine, unanswered[0]):
            return unanswered[1]
        unanswered = None
        with engine.begin() as connection:
            result = work(connection)
            if (receipt := receipt_of(connection)) is not None:
                unanswered = receipt, result
        return result

    return _with_patience(engine, transaction)


def _with_patience(engine: Engine, transaction: Callable[[], T]) -> T:
    for pause_seconds in (*PAUSES_SECONDS, None):
        try:
            return transaction()
        except SQLAlchemyError as error:
            if pause_seconds is None or not is_busy(error):
                raise _store_error(engine, error) from error
            time.sleep(pause_seconds)
    raise AssertionError("the last try returns or raises")


def _store_error(engine: Engine, error: SQLAlchemyError) -> StoreError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    mend = way_to_mend(error, engine.url)
    return _kind(error, can_be_mended=mend is not None)(
        Fault(
            what="the study database cannot be used",
            where=engine.url.render_as_string(),
            got=f"{type(cause).__name__}: {cause}",
            hint=mend or _way_on(str(cause)),
        )
    )


def _kind(error: SQLAlchemyError, *, can_be_mended: bool) -> type[StoreError]:
    if may_pass(error):
        return StoreUnreachable if can_be_mended else StoreUnavailable
    return StoreForbidden if can_be_mended else StoreError


def _way_on(trouble: str) -> str:
    if "not a database" in trouble or "malformed" in trouble:
        return (
            "The file is damaged: `sweeper rebuild STUDY` makes it anew from what the trials "
            "wrote in their folders, and keeps the old one"
        )
    return "What the trials wrote is safe in their folders: try the same command again"
