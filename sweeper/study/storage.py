"""Where a study's record is kept: an SQLite file in its run folder, or a PostgreSQL database.

A database server holds many studies, so each has a schema of its own there, named after it. The
study file is copied and shown, so a password is never written in it, only the name of an
environment variable; what such a variable holds goes to the driver and nowhere else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote

from sweeper.errors import Fault, StudyFileError
from sweeper.study.database_place import database_file
from sweeper.study.folder import StudyFolder, sqlite_url

SQLITE = "sqlite"
"""The study's own file, `study.db` in its run folder."""

EXPECTED = "sqlite, or postgresql+psycopg://USER:${PASSWORD}@HOST/DATABASE"

_KEY = "run.storage"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ONE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"
_PIECE = rf"(?:[A-Za-z0-9._~%-]|{_ONE})"
_URL = re.compile(
    r"postgresql\+psycopg://"
    rf"(?:{_PIECE}*(?::(?P<password>{_PIECE}*))?@)?"
    rf"(?:{_PIECE}*|\[[0-9A-Fa-f:.]+\])(?::(?:[0-9]+|{_ONE}))?"
    rf"/{_PIECE}+"
    rf"(?:\?(?P<query>(?:{_PIECE}|[/=&:,+])*))?"
)
"""Stricter than drivers are: what follows a stray @ would be told as the name of a host."""

_NOT_IN_QUERY = frozenset({"password", "sslpassword", "options", "user"})
_DRIVERS_OWN = "PGPASSWORD"
_LONGEST_NAME = 63
_LONGEST_START = 42


def fault_in(storage: str) -> tuple[str, str | None] | None:
    """Returns what is wrong with the value as written, with a hint; None if nothing is."""
    if storage == SQLITE or _VARIABLE.fullmatch(storage):
        return None
    found = _URL.fullmatch(storage)
    if found is None:
        return "not a place for a study's record", _hint(storage.partition("://")[0])
    password = found["password"]
    if password and not _VARIABLE.fullmatch(password):
        return (
            "a password does not belong in a study file, which is copied and shown",
            "Put it in an environment variable and write ${ITS_NAME} in its place.",
        )
    stray = sorted({name for name, _ in parse_qsl(found["query"] or "")} & _NOT_IN_QUERY)
    if stray:
        return f"`{stray[0]}` cannot be set in the query of the URL", None
    return None


def _hint(scheme: str) -> str:
    """Returns what may be wrong with a URL of that scheme, of which nothing else is told."""
    database, _, driver = scheme.partition("+")
    if database == SQLITE:
        return "An SQLite file is always study.db of the run folder: write sqlite."
    if database not in {"postgresql", "postgres"}:
        return "SQLite and PostgreSQL are supported, no other database."
    if (database, driver) != ("postgresql", "psycopg"):
        return "The one driver that is supported is psycopg: write postgresql+psycopg://."
    return "Encode special characters, @ as %40."


def database_url(
    storage: str, folder: StudyFolder, environ: Mapping[str, str], *, beside: str = ""
) -> str:
    """Returns the URL to connect with; it may hold a password, and is not to be shown or kept.

    A variable that stands for the whole value holds a URL; one within a URL holds a plain piece of
    it, and special characters of that are encoded here.

    Args:
        beside: Added to the name of the study's schema on a server.

    Raises:
        StudyFileError: A variable is not set, or the URL it holds cannot be used.
        StudyConflict: An SQLite file is on another host's disk.
    """
    if storage == SQLITE:
        return sqlite_url(database_file(folder))
    is_whole = _VARIABLE.fullmatch(storage) is not None
    url = _VARIABLE.sub(lambda found: _value(found[1], environ, is_whole=is_whole), storage)
    found = _URL.fullmatch(url)
    if found is None or {name for name, _ in parse_qsl(found["query"] or "")} & _NOT_IN_QUERY:
        raise StudyFileError(
            Fault(
                what="the database URL cannot be used",
                where=_KEY,
                got=storage,
                expected="postgresql+psycopg://USER:PASSWORD@HOST/DATABASE once it is filled in",
                hint="Encode special characters of the URL that a variable holds, @ as %40",
            )
        )
    search_path = quote(f'-csearch_path="{schema_name(folder.path.name + beside)}"', safe="")
    return f"{url}{'?' if found['query'] is None else '&'}options={search_path}"


def variables(storage: str) -> tuple[str, ...]:
    """Returns the environment variables that may hold a secret of the database's.

    Those that the value names, and one that PostgreSQL's driver reads by itself. They are for the
    coordinator alone: no trial needs them, and what they hold is not to be shown.
    """
    return tuple(dict.fromkeys([*_VARIABLE.findall(storage), _DRIVERS_OWN]))


def schema_name(study: str) -> str:
    """Returns the name of the PostgreSQL schema with everything of the study of that name."""
    name = f"sweeper_{study}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(study.encode()).hexdigest()
    return f"sweeper_{study[:_LONGEST_START]}-{digest[:12]}"


def _value(name: str, environ: Mapping[str, str], *, is_whole: bool) -> str:
    value = environ.get(name)
    if not value:
        raise StudyFileError(
            Fault(
                what="an environment variable is not set",
                where=_KEY,
                got=f"${{{name}}}",
                hint="Set it where sweeper runs; the study file holds its name only",
            )
        )
    return value if is_whole else quote(value, safe="")
