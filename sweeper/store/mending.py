"""What a user can do about a database server that lets nobody in, or cannot be reached. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

_SERVER_SAYS = "FATAL:"

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "permission denied": "42501",
        r'database ".*" does not exist': "3D000",
        r"password|authentication|pg_hba\.conf|log in|role \"": "28000",
    }
)
"""A connection that is refused comes without a SQLSTATE: what the server's words stand for."""


def never_connected(error: SQLAlchemyError) -> bool:
    """Says whether no connection to a server was made."""
    return (
        isinstance(error, OperationalError)
        and getattr(error.orig, "sqlstate", "") is None
        and not error.connection_invalidated
    )


def way_to_mend(error: SQLAlchemyError, url: URL) -> str | None:
    """Returns what the user can do about it; None where that is nothing, or not known."""
    if not isinstance(error, DBAPIError):
        return None
    state, said = getattr(error.orig, "sqlstate", None), str(error.orig)
    if never_connected(error):
        if _SERVER_SAYS not in said and "no password supplied" not in said:
            return _unreachable(url)
        state = _state_of(said.partition(_SERVER_SAYS)[2] or said)
    if state in {"28000", "28P01"}:
        return (
            "Put right user and password in run.storage, or in the environment variable that it "
            "names"
        )
    if state == "3D000":
        return f"Create it, as `createdb {url.database}` does, or name another in run.storage"
    if state == "42501":
        return (
            f'Have its owner allow it, GRANT CONNECT, CREATE ON DATABASE "{url.database}" TO '
            f'"{url.username}" for instance, or name another user in run.storage'
        )
    return None


def _state_of(words: str) -> str | None:
    found = (state for pattern, state in _WORDS.items() if re.search(pattern, words))
    return next(found, None)


def _unreachable(url: URL) -> str:
    place = f"{url.host}:{url.port or 5432}" if url.host else "its socket"
    return (
        f"See that the server runs and can be reached at {place}, as run.storage says; a study "
        "that is being run waits for it, and what its trials write is safe in their folders"
    )
