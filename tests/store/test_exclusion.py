"""What several coordinators must not do at once, they do one after another."""

from __future__ import annotations

import threading

import pytest

from sweeper.errors import StoreError, StoreUnavailable
from sweeper.store import exclusion
from sweeper.store.store import StudyStore


@pytest.fixture
def server_url(postgres):
    return postgres.new_schema_url()


@pytest.fixture
def pair(server_url):
    with StudyStore.create(server_url) as one, StudyStore.create(server_url) as other:
        yield one, other


def enter(store, entered):
    with store.turn():
        entered.set()


@pytest.mark.slow
def test_one_waits_until_the_other_has_left(pair):
    one, other = pair
    entered = threading.Event()
    with one.turn():
        waiting = threading.Thread(target=enter, args=(other, entered))
        waiting.start()
        assert not entered.wait(0.5)

    assert entered.wait(10)
    waiting.join()


@pytest.mark.slow
def test_the_store_can_be_used_meanwhile(pair):
    one, other = pair
    with one.turn():
        assert one.find_study() is None
        assert other.find_study() is None


@pytest.mark.slow
def test_studies_beside_each_other_do_not_wait_for_each_other(pair, postgres):
    one, _other = pair
    with StudyStore.create(postgres.new_schema_url()) as another, one.turn(), another.turn():
        pass


@pytest.mark.slow
def test_a_holder_whose_session_ended_has_lost_its_turn_and_leaves_in_order(pair, postgres):
    one, other = pair
    entered = threading.Event()
    with one.turn():
        postgres.end_sessions()
        enter(other, entered)
        assert entered.is_set()


@pytest.mark.slow
def test_a_holder_that_has_fallen_silent_has_lost_its_turn(pair, monkeypatch):
    """As one does that was frozen; the server ends its session."""
    monkeypatch.setattr(exclusion, "LONGEST_SECONDS", 1)
    one, other = pair
    entered = threading.Event()
    with one.turn():
        enter(other, entered)
        assert entered.is_set()


@pytest.mark.slow
def test_whoever_waits_in_vain_is_told(pair, monkeypatch):
    one, other = pair
    with one.turn():
        monkeypatch.setattr(exclusion, "LONGEST_SECONDS", 0.2)
        with pytest.raises(StoreUnavailable, match="has the study's database to itself"):
            enter(other, threading.Event())


@pytest.mark.slow
def test_a_server_that_is_away_is_told_as_such(server_url, monkeypatch):
    monkeypatch.setattr(exclusion, "_TRY", "SELECT pg_terminate_backend(pg_backend_pid()), :key")
    with StudyStore.create(server_url) as store, pytest.raises(StoreError):
        enter(store, threading.Event())


def test_an_sqlite_study_has_one_coordinator_anyway(tmp_path):
    with StudyStore.create(f"sqlite:///{tmp_path / 'study.db'}") as store, store.turn():
        assert store.find_study() is None


def test_a_store_for_reading_takes_no_turn(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    StudyStore.create(url).close()
    with (
        StudyStore.read(url) as store,
        pytest.raises(StoreError, match="for reading only"),
        store.turn(),
    ):
        pass
