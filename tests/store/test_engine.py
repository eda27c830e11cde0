"""How the database is opened: what a hardened engine and a reading engine do, and refuse."""

from __future__ import annotations

import sqlite3
import sys
from datetime import datetime
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage
from sqlalchemy import select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import NoResultFound, OperationalError

from sweeper.errors import StoreError
from sweeper.store.database import run
from sweeper.store.engine import DatabaseTime, harden, is_busy, open_engine, sqlite_file
from sweeper.store.store import StudyStore


@pytest.fixture
def engine(url):
    engine = open_engine(url)
    yield engine
    engine.dispose()


def pragma(engine, name):
    with engine.connect() as connection:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()


@pytest.mark.parametrize(
    ("name", "value"),
    [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 30000)],
)
def test_a_hardened_engine_is_durable_and_patient(engine, name, value):
    assert pragma(engine, name) == value


def test_a_hardened_transaction_holds_the_write_lock_from_its_first_statement(engine, database):
    with engine.begin() as connection:
        connection.exec_driver_sql("SELECT 1")
        impatient = sqlite3.connect(database, timeout=0, isolation_level=None)

        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            impatient.execute("BEGIN IMMEDIATE")

        impatient.close()


def test_hardening_twice_is_hardening_once(engine):
    harden(engine)

    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1


def test_hardening_applies_to_an_engine_that_was_already_in_use(url):
    storage = RDBStorage(url)
    assert pragma(storage.engine, "journal_mode") == "delete"

    harden(storage.engine)

    assert pragma(storage.engine, "journal_mode") == "wal"
    assert pragma(storage.engine, "busy_timeout") == 30000
    storage.remove_session()
    storage.engine.dispose()


def test_an_optuna_study_lives_in_the_same_file(store, url, owner, completed):
    storage = RDBStorage(url)
    harden(storage.engine)
    mirror = optuna.create_study(storage=storage, study_name="rates")
    mirror.enqueue_trial({"learning_rate": 0.0002}, user_attrs={"cell": "baseline/0"})

    claim = store.claim(owner, "cpu0")
    trial = mirror.ask()
    store.finish(claim, completed, max_resumes=3)
    mirror.tell(trial, 2.5)
    store.link_optuna({claim.cell: trial.number})

    assert store.cells()[0].optuna_number == 0
    assert store.trials()[0]["optuna_number"] == 0
    with StudyStore.create(url) as again:
        assert again.trials() == store.trials()
    assert optuna.load_study(storage=storage, study_name="rates").trials[0].value == 2.5
    storage.remove_session()
    storage.engine.dispose()


def test_a_reading_engine_reads_while_a_writer_holds_the_lock(store, url, engine):
    reader = open_engine(url, read_only=True)
    with engine.begin() as writing:
        writing.exec_driver_sql("UPDATE sweeper_study SET name = 'unfinished'")

        with reader.connect() as reading:
            name = reading.exec_driver_sql("SELECT name FROM sweeper_study").scalar_one()

    assert name == "rates"
    reader.dispose()


def test_a_reading_engine_refuses_to_write(store, url):
    reader = open_engine(url, read_only=True)

    with pytest.raises(OperationalError, match="readonly"), reader.begin() as connection:
        connection.exec_driver_sql("UPDATE sweeper_study SET name = 'x'")

    reader.dispose()


def test_reading_a_database_that_is_not_there_creates_none(url, database):
    with pytest.raises(StoreError, match="there is no study database"):
        open_engine(url, read_only=True)

    assert not database.exists()


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////studies/a%3Fb%23c/study.db", "/studies/a?b#c/study.db"),
        ("sqlite:////studies/100%2520/study.db", "/studies/100%20/study.db"),
        ("sqlite:////studies/b%20%22q/study.db?timeout=3", '/studies/b "q/study.db'),
        ("sqlite+pysqlite:///study.db", "study.db"),
    ],
)
def test_a_file_s_name_in_a_url_is_decoded_once(url, file):
    engine = open_engine(url)

    assert engine.url.database == file
    assert sqlite_file(url) == Path(file)
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url):
    with pytest.raises(StoreError, match="in memory"):
        open_engine(url)


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("postgres://user:pa%40ss@host/name", "pa%40ss"),
        ("postgresql+psycopg://user:p@ss:w/rd%1@host/name", "ss"),
        ("nothing secret at all", "secret"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_a_piece_of_it(url, secret):
    with pytest.raises(StoreError, match="the database URL cannot be used") as caught:
        open_engine(url)

    assert secret not in str(caught.value).replace("password", "")
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("url", ["mysql://host/name", "mssql+pyodbc://host/name"])
def test_a_kind_of_database_that_was_never_tried_is_refused(url):
    with pytest.raises(StoreError, match="expected sqlite:"):
        open_engine(url)


def test_a_driver_that_is_not_installed_is_named():
    with pytest.raises(StoreError, match=r"no driver for postgresql\+pg8000"):
        open_engine("postgresql+pg8000://host/name")


def test_without_psycopg_the_way_to_get_it_is_told_and_no_password(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StoreError, match=r"pip install 'sweeper\[postgres\]'") as caught:
        open_engine("postgresql+psycopg://user:secret@host/name")

    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_told_without_the_password():
    engine = open_engine("postgresql+psycopg://user:secret@127.0.0.1:1/name")

    with pytest.raises(StoreError, match=r"user:\*\*\*@127\.0\.0\.1:1/name") as caught:
        run(engine, lambda connection: None)

    assert "secret" not in str(caught.value)
    engine.dispose()


def test_a_wrong_password_is_not_told(postgres):
    url = f"postgresql+psycopg://{postgres.USER}:wrong-secret@{postgres.place}"

    with pytest.raises(StoreError, match="password authentication failed") as caught:
        StudyStore.create(url)

    assert "wrong-secret" not in str(caught.value)


class Deadlock(Exception):
    sqlstate = "40P01"


@pytest.mark.parametrize(
    ("error", "busy"),
    [
        (OperationalError("x", {}, sqlite3.OperationalError("database is locked")), True),
        (OperationalError("x", {}, Deadlock()), True),
        (OperationalError("x", {}, Exception(), connection_invalidated=True), True),
        (OperationalError("x", {}, sqlite3.OperationalError("disk I/O error")), False),
        (NoResultFound("no row"), False),
    ],
    ids=["locked", "deadlock", "connection lost", "broken disk", "no row"],
)
def test_only_what_may_pass_by_itself_is_worth_another_try(error, busy):
    assert is_busy(error) is busy


def test_the_database_tells_the_time_as_text_that_sorts(engine):
    query = select(DatabaseTime(-1.5), DatabaseTime(), DatabaseTime(86400.0))

    with engine.connect() as connection:
        earlier, now, later = connection.execute(query).one()

    assert earlier < now < later
    times = [datetime.fromisoformat(text) for text in (earlier, now, later)]
    assert (times[1] - times[0]).total_seconds() == 1.5
    assert (times[2] - times[1]).total_seconds() == 86400.0
    assert abs((datetime.now(times[1].tzinfo) - times[1]).total_seconds()) < 60


def test_the_clock_is_the_databases_on_postgresql_too():
    statement = str(select(DatabaseTime(5.0)).compile(dialect=postgresql.dialect()))

    assert "clock_timestamp()" in statement
    assert "interval '1 second'" in statement


def test_a_database_on_a_disk_that_takes_no_writes_can_be_read(store, url, database, monkeypatch):
    """The disk is faked by what the operating system says of the folder; nothing is made in it."""
    store.close()
    beside = {file.name for file in database.parent.iterdir()}
    monkeypatch.setattr("os.access", lambda *_: False)

    reader = open_engine(url, read_only=True)

    with reader.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sweeper_cell").scalar_one() > 0
        while_reading = {file.name for file in database.parent.iterdir()}
    reader.dispose()
    assert beside == {database.name}
    assert while_reading == beside, "a reader with locks makes files beside the database"
