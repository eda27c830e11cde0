"""The URL of a study's database: what variables become, and what is never told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.folder import StudyFolder
from sweeper.study.storage import database_url, fault_in, schema_name

FOLDER = StudyFolder(Path("/studies/runs/rates"))
IN_ITS_SCHEMA = "options=-csearch_path%3D%22sweeper_rates%22"


def test_without_more_the_record_is_a_file_of_the_run_folder() -> None:
    assert database_url("sqlite", FOLDER, {}) == "sqlite:////studies/runs/rates/study.db"


def test_a_study_has_a_schema_of_its_own_on_a_server() -> None:
    url = database_url("postgresql+psycopg://host/db", FOLDER, {})

    assert url == f"postgresql+psycopg://host/db?{IN_ITS_SCHEMA}"


def test_the_query_of_the_url_stays() -> None:
    url = database_url("postgresql+psycopg://host/db?sslmode=require", FOLDER, {})

    assert url == f"postgresql+psycopg://host/db?sslmode=require&{IN_ITS_SCHEMA}"


def test_special_characters_of_a_variable_within_a_url_are_encoded() -> None:
    url = database_url("postgresql+psycopg://me:${SECRET}@host/db", FOLDER, {"SECRET": "p@s/s %:"})

    assert url == f"postgresql+psycopg://me:p%40s%2Fs%20%25%3A@host/db?{IN_ITS_SCHEMA}"


def test_a_variable_that_stands_alone_holds_a_url() -> None:
    url = database_url("${DB}", FOLDER, {"DB": "postgresql+psycopg://me:p%40ss@host/db"})

    assert url == f"postgresql+psycopg://me:p%40ss@host/db?{IN_ITS_SCHEMA}"


@pytest.mark.parametrize("environ", [{}, {"SECRET": ""}])
def test_a_variable_that_is_not_set_is_named(environ) -> None:
    with pytest.raises(StudyFileError, match=r"a.* variable is not set \(got \$\{SECRET\}\)"):
        database_url("postgresql+psycopg://me:${SECRET}@host/db", FOLDER, environ)


@pytest.mark.parametrize(
    "held",
    [
        "postgresql+psycopg://me:p@secret@host/db",
        "postgresql+psycopg://me@host/db?password=secret",
        "postgres://me:secret@host/db",
        "sqlite",
        "secret",
    ],
)
def test_what_a_variable_holds_is_never_told(held) -> None:
    with pytest.raises(StudyFileError, match=r"cannot be used \(got \$\{DB\};") as caught:
        database_url("${DB}", FOLDER, {"DB": held})

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgresql+psycopg://user:${X}@h@host/db", "Encode special characters, @ as %40."),
        ("postgres://user@host/db", "psycopg: write postgresql+psycopg://."),
        ("postgresql://user@host/db", "psycopg: write postgresql+psycopg://."),
        ("postgresql+psycopg2://user@host/db", "psycopg: write postgresql+psycopg://."),
        ("sqlite:///x.db", "always study.db of the run folder: write sqlite."),
        ("sqlite+aiosqlite:///x.db", "always study.db of the run folder: write sqlite."),
        ("mysql://user@host/db", "SQLite and PostgreSQL are supported, no other database."),
        ("/studies/x.db", "SQLite and PostgreSQL are supported, no other database."),
    ],
)
def test_a_url_that_is_no_place_is_refused_with_the_hint_for_its_database(url, hint) -> None:
    fault = fault_in(url)

    assert fault is not None
    assert fault[0] == "not a place for a study's record"
    assert fault[1] is not None
    assert fault[1].endswith(hint)


def test_the_schema_of_a_long_name_is_cut_and_told_apart_by_a_digest() -> None:
    one, other = schema_name("a" * 99 + "b"), schema_name("a" * 99 + "c")

    assert schema_name("a" * 55) == "sweeper_" + "a" * 55
    assert len(one) == len(other) == 63
    assert one != other
