"""How the database is opened, and every statement that only one kind of database takes.

SQLite hands two readers the same row before either writes, because its transactions begin
with their first write. A hardened engine begins every transaction with the write lock.
"""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote_to_bytes

from sqlalchemy import URL, Connection, Engine, Text, create_engine, event, literal, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from sweeper.errors import Fault, StoreError

BUSY_TIMEOUT_SECONDS = 30.0
"""How long a transaction waits for another one's write lock before it fails as busy."""

OWN_SCHEMA = "sweeper_"
"""What the name of every PostgreSQL schema with a study begins with."""

SQLITE = "sqlite"

_PATIENCE = MappingProxyType(
    {
        "connect_timeout": 10,
        "tcp_user_timeout": 30_000,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
)
"""Seconds to connect in, milliseconds that sent bytes may stay unanswered, and when to ask whether
a silent server is still there.
"""

_SESSION = "-c lock_timeout=30s -c idle_in_transaction_session_timeout=60s"
"""What a session that lost its client may hold is not held for ever; transactions here are short.

Waiting for a lock is given up, as busy, after as long as SQLite waits.
"""

_KNOWN = (SQLITE, "postgresql")
_BUSY_SQLSTATES = frozenset({"40001", "40P01", "55P03", "53300", "57P01", "57P02", "57P03"})
"""Conflicts of transactions, locks, too many sessions, a server that stops or starts."""

_PASSING_TROUBLE = ("SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR")
"""An SQLite file that cannot be used at the moment: no room, a disk or file system that is away."""
_CREATION_LOCK = 7_305_917_460


def open_engine(url: str, *, read_only: bool = False) -> Engine:
    """Returns an engine on the database; on SQLite hardened, or plain for reading only.

    A reading engine never takes the write lock and refuses to write. The caller disposes of it.

    Raises:
        StoreError: The URL cannot be used, its driver is missing, or the SQLite file to read
            does not exist.
    """
    place = _parse(url)
    if place.get_backend_name() == SQLITE:
        _check_file(place, must_exist=read_only)
        if read_only and _is_archived(place):
            place = _as_archive(place)
    try:
        engine = create_engine(place, **engine_options(url))
    except ModuleNotFoundError:
        raise _without_driver(place.drivername) from None
    except ArgumentError as error:
        raise _unusable(f"{type(error).__name__}: {place.drivername}") from None
    if read_only:
        _soften(engine)
    else:
        harden(engine)
    return engine


def engine_options(url: str) -> dict[str, object]:
    """Returns what SQLAlchemy's `create_engine` is told about connections to the database.

    A server that is gone is noticed: before a connection is used again, and by a network that
    stays silent.
    """
    if url.startswith(SQLITE):
        return {"connect_args": {"timeout": BUSY_TIMEOUT_SECONDS}}
    given = make_url(url).query.get("options", "")
    return {
        "pool_pre_ping": True,
        "connect_args": _PATIENCE | {"options": f"{_SESSION} {given}".strip()},
    }


def options_with_text(url: str) -> dict[str, object]:
    """Returns the same for code that hands the URL on as text, as Optuna does.

    It says how an SQLite file is opened: SQLAlchemy before 2.1 does not decode a name in a text.
    """
    if not url.startswith(SQLITE):
        return engine_options(url)
    opened = partial(
        sqlite3.connect, sqlite_file(url), timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False
    )
    return {"creator": opened}


def sqlite_file(url: str) -> Path:
    """Returns the SQLite file of a URL, whose special characters are percent-encoded."""
    return Path(os.fsdecode(unquote_to_bytes(_encoded_file(url))))


def _encoded_file(url: str) -> str:
    return url.partition("?")[0].partition(":///")[2]


def harden(engine: Engine) -> None:
    """Makes every transaction of an SQLite engine begin with the write lock, durably.

    Connections get write-ahead logging, full synchronisation, foreign keys and a busy timeout;
    those already open are closed. Safe to call again, and does nothing on other databases.
    """
    if engine.dialect.name != SQLITE or event.contains(engine, "begin", _begin_immediate):
        return
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", _begin_immediate)
    engine.dispose()


def hold_creation_lock(connection: Connection) -> None:
    """Lets one transaction at a time create the schema; held until the transaction ends."""
    if connection.dialect.name != SQLITE:  # a hardened SQLite transaction holds it already
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})


def make_place(connection: Connection) -> None:
    """Makes the PostgreSQL schema that the URL's search path names, if it is not there yet."""
    if connection.dialect.name != SQLITE and _current_schema(connection) is None:
        # A session may not have noticed yet that another one has made it.
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {_search_path(connection)}")


def drop_place(connection: Connection) -> None:
    """Drops the PostgreSQL schema with all that is in it; an SQLite file is the caller's."""
    if connection.dialect.name == SQLITE or (schema := _current_schema(connection)) is None:
        return
    assert schema.startswith(OWN_SCHEMA)  # never a schema that somebody else may use
    connection.exec_driver_sql(f"DROP SCHEMA {_search_path(connection)} CASCADE")


def _current_schema(connection: Connection) -> str | None:
    """Returns the first schema of the search path that exists."""
    found: str | None = connection.execute(text("SELECT current_schema()")).scalar_one()
    return found


def _search_path(connection: Connection) -> str:
    """Returns the search path as it was set: for one of our URLs one quoted name."""
    path: str = connection.execute(text("SELECT current_setting('search_path')")).scalar_one()
    return path


def is_busy(error: SQLAlchemyError) -> bool:
    """Whether the same transaction may succeed when it is tried again, soon."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _BUSY_SQLSTATES:
        return True
    return "database is locked" in str(error.orig) or "table is locked" in str(error.orig)


class AnswerLost(Exception):
    """The connection ended, and what it had last asked for may have taken effect."""


def may_pass(error: BaseException) -> bool:
    """Whether the trouble is with the database as a whole, and nothing that was asked of it."""
    if isinstance(error, AnswerLost) or (isinstance(error, SQLAlchemyError) and is_busy(error)):
        return True
    if isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", "") is None:
        return True  # a server that could not be reached gives no state
    name = getattr(error.orig, "sqlite_errorname", "") if isinstance(error, DBAPIError) else ""
    return name.startswith(_PASSING_TROUBLE)


def tell_lost_answers(engine: Engine) -> None:
    """Makes the engine raise `AnswerLost` for a connection that ended, instead of its own error.

    For code that would repeat a transaction by itself, as Optuna does to add a trial. Safe to call
    again.
    """
    if not event.contains(engine, "handle_error", _as_lost_answer):
        event.listen(engine, "handle_error", _as_lost_answer)


def _as_lost_answer(context: ExceptionContext) -> None:
    if context.is_disconnect and not context.is_pre_ping:
        raise AnswerLost(str(context.original_exception)) from None


DATABASE_ERRORS = (SQLAlchemyError, AnswerLost)
"""What code that uses an engine of its own, as Optuna's does, may let through."""


class DatabaseTime(FunctionElement[str]):
    """The database's own clock as UTC text such as `2026-03-01T12:00:00.250Z`.

    Texts of this form sort as the times they stand for. `offset_seconds` is added to the time.
    """

    name = "database_time"
    type = Text()
    inherit_cache = True

    def __init__(self, offset_seconds: float = 0.0) -> None:
        super().__init__(literal(float(offset_seconds)))


@compiles(DatabaseTime, SQLITE)
def _sqlite_time(element: DatabaseTime, compiler: SQLCompiler, **options: object) -> str:
    offset = compiler.process(element.clauses, **options)
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {offset} || ' seconds')"


@compiles(DatabaseTime, "postgresql")
def _postgresql_time(element: DatabaseTime, compiler: SQLCompiler, **options: object) -> str:
    offset = compiler.process(element.clauses, **options)
    moment = f"timezone('utc', clock_timestamp() + {offset} * interval '1 second')"
    return f'to_char({moment}, \'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\')'


def _parse(url: str) -> URL:
    try:
        place = make_url(url)
        place.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError, ImportError) as error:
        # Neither the URL nor the cause is repeated: both may hold a piece of a password.
        raise _unusable(type(error).__name__) from None
    if place.get_backend_name() not in _KNOWN:
        raise _unusable(place.drivername)
    if place.get_backend_name() == SQLITE and _encoded_file(url):
        return place.set(database=str(sqlite_file(url)))  # not every SQLAlchemy decodes it
    return place


def _check_file(place: URL, *, must_exist: bool) -> None:
    if not place.database or place.database == ":memory:":
        raise _unusable("an SQLite database in memory, which other processes cannot see")
    if must_exist and not Path(place.database).is_file():
        raise StoreError(
            Fault(
                what="there is no study database",
                where=place.database,
                hint="Start the study with `sweeper run`",
            )
        )


def _is_archived(place: URL) -> bool:
    """Says whether nobody can be writing: a reader of WAL files needs to make one beside them."""
    file = Path(str(place.database))
    has_log = file.with_name(f"{file.name}-wal").exists()
    return not has_log and not os.access(file.parent, os.W_OK)


def _as_archive(place: URL) -> URL:
    """Returns the URL of the same file, to be read without locks and without files beside it."""
    file = Path(str(place.database)).resolve()
    options = {"mode": "ro", "immutable": "1", "uri": "true"}
    return place.set(database=f"file:{quote(str(file))}", query=options)


def _unusable(got: str) -> StoreError:
    return StoreError(
        Fault(
            what="the database URL cannot be used",
            got=got,
            expected="sqlite:////folder/study.db or postgresql+psycopg://user@host/name",
            hint="Encode special characters of a password, @ as %40 for instance",
        )
    )


def _without_driver(driver: str) -> StoreError:
    return StoreError(
        Fault(
            what="the package that speaks to this database is not installed",
            got=f"no driver for {driver}",
            hint="pip install 'sweeper[postgres]', and write postgresql+psycopg://",
        )
    )


def _soften(engine: Engine) -> None:
    """Makes every transaction of the engine one snapshot that locks nothing and cannot write."""
    if engine.dialect.name == SQLITE:
        event.listen(engine, "connect", _prepare_reader)
        event.listen(engine, "begin", _begin_deferred)
    else:
        event.listen(engine, "begin", _begin_snapshot)


def _prepare_writer(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    _take_over_transactions(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _prepare_reader(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    _take_over_transactions(connection)
    connection.execute("PRAGMA query_only = ON")


def _take_over_transactions(connection: DBAPIConnection) -> None:
    """Stops the driver from beginning transactions by itself, which it would do too late."""
    connection.isolation_level = None
    timeout = int(BUSY_TIMEOUT_SECONDS * 1000)
    connection.execute(f"PRAGMA busy_timeout = {timeout}")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_deferred(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _begin_snapshot(connection: Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
