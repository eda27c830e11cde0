"""Whether a transaction took effect whose answer was lost on the way.

A connection that ends while it waits for the answer to its COMMIT does not say whether there was
one. PostgreSQL knows the transaction by its number and tells; SQLite answers within the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from sweeper.store.engine import SQLITE

_LOOKS = 50
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """By what the server knows a transaction that has written something.

    Attributes:
        transaction: Its number, which is never given again.
        session: The process that serves its connection.
    """

    transaction: str
    session: int


def receipt_of(connection: Connection) -> Receipt | None:
    """Returns what to ask by later; None if nothing was written, or no answer can be lost."""
    if connection.dialect.name == SQLITE:
        return None
    query = "SELECT pg_current_xact_id_if_assigned()::text, pg_backend_pid()"
    transaction, session = connection.execute(text(query)).one()
    return None if transaction is None else Receipt(transaction=transaction, session=session)


def has_taken_effect(engine: Engine, receipt: Receipt) -> bool:
    """Says whether the transaction was committed; until that is decided, its session is ended.

    A session whose client is gone may not have noticed, and holds its locks.
    """
    for _ in range(_LOOKS):
        with engine.begin() as connection:
            status = connection.execute(text(_STATUS), {"transaction": receipt.transaction})
            if (answer := status.scalar_one()) != "in progress":
                return bool(answer == "committed")
            connection.execute(
                text(_END), {"session": receipt.session, "transaction": receipt.transaction}
            )
        time.sleep(_LOOK_SECONDS)
    return False


_STATUS = "SELECT pg_xact_status(CAST(:transaction AS xid8))"
_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :session"
    " AND backend_xid = CAST(CAST(:transaction AS xid8) AS xid)"
)
"""The session is named by its transaction too: its process number may be another's by now."""
