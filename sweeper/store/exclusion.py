"""One coordinator at a time does what several must not do at once, on a database server.

An SQLite study has one coordinator, held off from others by a lock on its run folder.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sweeper.errors import Fault, StoreUnavailable
from sweeper.store.engine import SQLITE

LONGEST_SECONDS = 300
"""After which a holder that has fallen silent has lost its turn: the server ends its session."""
_LOOK_SECONDS = 0.1
_KEY = 1_847_392


@contextlib.contextmanager
def turn(engine: Engine) -> Iterator[None]:
    """Waits until nobody else is in such a block on the same schema, and keeps others out.

    Everything in the block uses other connections than the one that holds the turn. Blocks do not
    nest.

    Raises:
        StoreUnavailable: Somebody was in it all the time.
        SQLAlchemyError: The database cannot be used.
    """
    if engine.dialect.name == SQLITE:
        yield
        return
    connection = engine.connect()
    try:
        _wait_for(connection)
        yield
    finally:
        # A session that was ended meanwhile has given the turn back already.
        with contextlib.suppress(SQLAlchemyError):
            connection.close()


def _wait_for(connection: Connection) -> None:
    patience = f"SET LOCAL idle_in_transaction_session_timeout = '{LONGEST_SECONDS}s'"
    connection.execute(text(patience))
    give_up = time.monotonic() + 2 * LONGEST_SECONDS
    while not connection.execute(text(_TRY), {"key": _KEY}).scalar_one():
        if time.monotonic() >= give_up:
            raise StoreUnavailable(
                Fault(
                    what="another coordinator has the study's database to itself for too long",
                    got=f"{2 * LONGEST_SECONDS} s",
                    hint="Look for one that is stopped, and end it",
                )
            )
        time.sleep(_LOOK_SECONDS)


_TRY = "SELECT pg_try_advisory_xact_lock(:key, hashtext(current_schema()))"
