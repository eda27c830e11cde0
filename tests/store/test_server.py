"""A database server that ends sessions, restarts, or is used by others beside us."""

from __future__ import annotations

import psycopg
import pytest

from sweeper.errors import StoreError
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.costly


@pytest.fixture
def url(postgres):
    return postgres.new_schema_url()


def test_after_its_sessions_were_ended_a_store_goes_on(store, postgres, owner, completed):
    claim = store.claim(owner, "cpu0")
    assert postgres.end_sessions() >= 1

    assert store.finish(claim, completed, max_resumes=3)

    assert store.trials()[0]["outcome"] == "completed"


def test_a_session_that_ends_within_a_transaction_takes_it_back_and_it_is_tried_again(
    store, postgres
):
    tries = []

    def work(connection):
        connection.exec_driver_sql("UPDATE sweeper_study SET name = name || '!'")
        tries.append(1)
        if len(tries) == 1:
            postgres.end_sessions()

    store._database.write(work)

    assert tries == [1, 1]
    assert store.study().name == "rates!"


def test_what_was_written_before_a_server_restarts_is_there_afterwards(
    store, postgres, owner, numbered, update
):
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(update()))

    postgres.stop()
    try:
        with pytest.raises(StoreError, match="the study database cannot be used") as caught:
            store.renew(claim)
    finally:
        postgres.start()

    assert "***" in str(caught.value)
    assert store.ingest(claim, numbered(update(), update(window=2))) == 2
    assert [row["window"] for row in store.updates()] == [1, 2]


def test_a_reader_that_holds_a_transaction_keeps_no_writer_waiting(store, url, owner, completed):
    with psycopg.connect(url.replace("+psycopg", "")) as reader:
        reader.execute("SELECT * FROM sweeper_trials").fetchall()

        claim = store.claim(owner, "cpu0")
        assert store.finish(claim, completed, max_resumes=3)


def test_a_reading_store_cannot_write(store, url):
    with StudyStore.read(url) as readable, pytest.raises(StoreError, match="read-only transaction"):
        readable._database.read(
            lambda connection: connection.exec_driver_sql("UPDATE sweeper_study SET name = 'x'")
        )
