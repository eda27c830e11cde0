"""The schema is created once, whoever comes first; another version is refused."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from sweeper.errors import StoreError
from sweeper.store.schema import VERSION
from sweeper.store.store import StudyStore
from sweeper.store.tables import METADATA

NEWER = rf"got version {VERSION + 1}; expected version {VERSION}.*newer sweeper"
OLDER = rf"got version {VERSION - 1}; expected version {VERSION}.*older sweeper"


def change(database, statement):
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_sixteen_processes_may_open_a_fresh_database_at_once(
    url, database, start_children, run_together
):
    answers = run_together(start_children(16, "create_store.py", url))

    assert answers == ["None"] * 16
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT id, version FROM sweeper_schema").fetchall() == [(1, VERSION)]
    connection.close()


@pytest.mark.parametrize("open_store", [StudyStore.create, StudyStore.open, StudyStore.read])
def test_a_newer_schema_is_refused_and_both_versions_are_named(store, url, database, open_store):
    change(database, f"UPDATE sweeper_schema SET version = {VERSION + 1}")

    with pytest.raises(StoreError, match=NEWER):
        open_store(url)


def test_an_older_schema_is_refused_too(store, url, database):
    change(database, f"UPDATE sweeper_schema SET version = {VERSION - 1}")

    with pytest.raises(StoreError, match=OLDER):
        StudyStore.open(url)


@pytest.mark.parametrize("open_store", [StudyStore.open, StudyStore.read])
def test_a_database_of_something_else_is_not_opened_as_a_study(url, database, open_store):
    change(database, "CREATE TABLE other (x INTEGER)")

    with pytest.raises(StoreError, match="holds no study of sweeper"):
        open_store(url)


@pytest.mark.parametrize("open_store", [StudyStore.open, StudyStore.read])
def test_a_file_that_is_no_database_is_refused(url, database, open_store):
    database.write_bytes(b"not a database, but long enough to be looked at" * 100)

    with pytest.raises(StoreError, match="file is not a database"):
        open_store(url)


def test_a_schema_of_a_server_is_created_once_whoever_comes_first(
    postgres, start_children, run_together
):
    url = postgres.new_schema_url()

    answers = run_together(start_children(16, "create_store.py", url))

    assert answers == ["None"] * 16


def test_two_schemas_of_a_server_hold_two_studies(postgres, study, cells):
    one, other = postgres.new_schema_url(), postgres.new_schema_url()
    with StudyStore.create(one) as first, StudyStore.create(other) as second:
        first.record_study(study)
        first.add_cells(cells)

        assert second.find_study() is None

        second.delete()
        assert len(first.trials()) == 4

    with pytest.raises(StoreError, match="holds no study of sweeper"):
        StudyStore.read(other)


def test_creating_again_keeps_what_is_there(store, url):
    with StudyStore.create(url) as again:
        assert again.cells() == store.cells()


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=lambda table: table.name)
def test_every_table_can_be_written_for_postgresql(table):
    statement = str(CreateTable(table).compile(dialect=postgresql.dialect()))

    assert f"CREATE TABLE {table.name}" in statement
    assert "DATETIME" not in statement
