"""A server that lets nobody in, or is not there: what the user is told to do."""

from urllib.parse import quote

import pytest

from sweeper.errors import StoreError, StoreForbidden, StoreUnreachable, UserError
from sweeper.store.condition import condition_of, try_place
from sweeper.store.store import StudyStore

SECRET = "low-secret"

pytestmark = pytest.mark.costly


@pytest.fixture
def low(postgres):
    """The URL of a user who may connect, and make no schema."""
    postgres.execute(f"CREATE ROLE low LOGIN PASSWORD '{SECRET}'")
    yield f"postgresql+psycopg://low:{SECRET}@{postgres.place}?options=-csearch_path%3Dsweeper_low"
    postgres.execute("DROP ROLE low")


@pytest.fixture
def closed(postgres, low):
    """The URL of a database that this user may not connect to."""
    postgres.execute("CREATE DATABASE closed")
    postgres.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
    yield low.replace("/postgres", "/closed")
    postgres.execute("DROP DATABASE closed")


def fault_of(url, kind, do=StudyStore.create):
    with pytest.raises(kind) as caught:
        do(url)
    assert type(caught.value) is kind
    assert issubclass(kind, UserError), "so that the exit status is 2"
    return caught.value.faults[0]


def test_a_wrong_password_is_to_be_put_right_and_is_not_shown(postgres):
    secret = quote(postgres.PASSWORD, safe="")
    url = postgres.new_schema_url().replace(secret, "wrong-secret")

    fault = fault_of(url, StoreUnreachable)

    assert "password authentication failed" in fault.got
    assert fault.hint == (
        "Put right user and password in run.storage, or in the environment variable that it names"
    )
    assert "wrong-secret" not in str(fault)


def test_a_password_that_is_left_out_is_to_be_put_right_too(postgres):
    secret = quote(postgres.PASSWORD, safe="")

    fault = fault_of(postgres.new_schema_url().replace(f":{secret}", ""), StoreUnreachable)

    assert fault.hint.startswith("Put right user and password")


def test_a_database_that_does_not_exist_is_to_be_created(postgres):
    fault = fault_of(postgres.new_schema_url().replace("/postgres", "/nowhere"), StoreUnreachable)

    assert fault.hint == "Create it, as `createdb nowhere` does, or name another in run.storage"


def test_a_server_that_is_not_there_is_named_with_its_port(postgres):
    fault = fault_of(postgres.by_way_of(1, postgres.new_schema_url()), StoreUnreachable)

    assert fault.hint.startswith("See that the server runs and can be reached at 127.0.0.1:1, as")


def test_a_user_who_may_not_make_a_schema_is_to_be_allowed_to(low):
    fault = fault_of(low, StoreForbidden)

    assert 'GRANT CONNECT, CREATE ON DATABASE "postgres" TO "low"' in fault.hint
    assert SECRET not in str(fault)


def test_a_user_who_may_not_connect_is_to_be_allowed_to(closed):
    fault = fault_of(closed, StoreUnreachable)

    assert 'GRANT CONNECT, CREATE ON DATABASE "closed" TO "low"' in fault.hint


def test_other_trouble_is_nobody_s_to_mend(postgres):
    store = StudyStore.create(postgres.new_schema_url())
    with store, pytest.raises(StoreError) as caught:
        store._database.read(lambda connection: connection.exec_driver_sql("SELECT * FROM nil"))

    assert not isinstance(caught.value, UserError)
    assert "safe in their folders" in caught.value.faults[0].hint


class TestPlaceOfANewStudy:
    def test_it_is_made_for_a_trial_and_nothing_of_it_stays(self, postgres):
        url = postgres.new_schema_url()
        before = postgres.execute("SELECT nspname FROM pg_namespace")

        try_place(url)

        assert postgres.execute("SELECT nspname FROM pg_namespace") == before

    def test_one_that_is_there_is_left_as_it_is(self, postgres):
        url = postgres.new_schema_url()
        StudyStore.create(url).close()
        before = condition_of(url)

        try_place(url)

        assert condition_of(url) is before

    def test_one_that_cannot_be_made_is_told_before_anything_is_founded(self, low):
        fault_of(low, StoreForbidden, try_place)
