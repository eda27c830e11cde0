"""Transactions take effect once or not at all, and wait for each other."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from sweeper.errors import StoreError
from sweeper.store import database as transactions
from sweeper.store.database import Database
from sweeper.store.schema import create_schema
from sweeper.store.store import StudyStore


@pytest.fixture
def opened(url):
    database = Database.for_writing(url, create_schema)
    yield database
    database.close()


@pytest.fixture
def fast_tries(monkeypatch):
    monkeypatch.setattr(transactions, "PAUSES_SECONDS", (0.01, 0.01, 0.01))


def insert(connection, name="late"):
    connection.exec_driver_sql(
        "INSERT INTO sweeper_study (id, name, fingerprint, protocol, study_yaml, factor_key, arms,"
        " seeds, budget_target_tokens, created_at)"
        f" VALUES (1, '{name}', 'f', '{{}}', '', 'a.b', '[]', '[]', 1, 'now')"
    )


def count(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM sweeper_study").scalar_one()


class Busy:
    """Work that finds the database locked a few times before it succeeds."""

    def __init__(self, times):
        self.left = times

    def __call__(self, connection):
        insert(connection)
        if self.left > 0:
            self.left -= 1
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))
        return "written"


def test_a_busy_database_is_tried_again(opened, fast_tries):
    assert opened.write(Busy(times=3)) == "written"
    assert opened.read(count) == 1


def test_after_the_last_try_the_fault_says_so_and_nothing_is_written(opened, fast_tries):
    with pytest.raises(StoreError, match="database is locked"):
        opened.write(Busy(times=4))

    assert opened.read(count) == 0


def test_another_fault_of_the_database_is_not_tried_again(opened):
    tries = []

    def fail(connection):
        tries.append(1)
        connection.exec_driver_sql("SELECT * FROM nowhere")

    with pytest.raises(StoreError, match="no such table: nowhere"):
        opened.write(fail)

    assert tries == [1]


def test_an_error_in_the_work_undoes_all_of_it(opened):
    def fail(connection):
        insert(connection)
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        opened.write(fail)

    assert opened.read(count) == 0


def test_a_store_that_was_opened_for_reading_refuses_to_write(store, url):
    with (
        StudyStore.read(url) as readable,
        pytest.raises(StoreError, match="opened for reading only"),
    ):
        readable.end_study("over")


def test_a_reader_that_holds_its_snapshot_keeps_no_writer_waiting(opened):
    def read_write_read(reading):
        before = count(reading)
        opened.write(insert)
        return before, count(reading)

    assert opened.read(read_write_read) == (0, 0)
    assert opened.read(count) == 1


def test_a_writer_waits_for_the_writer_of_another_process(opened, database):
    elsewhere = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    elsewhere.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, elsewhere.execute, ["COMMIT"])
    timer.start()

    opened.write(insert)

    timer.join()
    elsewhere.close()
    assert opened.read(count) == 1


def test_threads_of_one_process_take_turns(store, owner):
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda slot: store.claim(owner, f"cpu{slot}"), range(8)))

    claimed = [claim.cell for claim in claims if claim is not None]
    assert sorted(claimed) == ["baseline/0", "baseline/1", "double/0", "double/1"]


def test_a_transaction_begins_with_the_write_lock(opened):
    statements = []
    event.listen(
        opened._writer,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, *_rest: statements.append(statement),
    )

    opened.write(count)

    assert statements[0] == "BEGIN IMMEDIATE"
