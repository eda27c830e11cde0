"""Whose leases are over is given the time to renew them, before they count as lost."""

import pytest

from sweeper.store.claims import Owner
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.silence import Patience, silent_claims
from sweeper.sweep.stop_request import StopRequest
from sweeper.workers.liveness import host_name

LEASE = LeaseTerms(seconds=30.0, kill_grace_seconds=6.0)
LATEST_RENEWAL_SECONDS = 30.0 / 5 + 2 * 30.0 / 30
ELSEWHERE = Owner(worker="worker", host="another-host", pid=1, started_at="1.0")
GONE = Owner(worker="worker", host=host_name(), pid=2**22 + 1, started_at="1.0")
OVERDUE_SECONDS = -60.0


class Time:
    """A clock that goes on when somebody sleeps; what is to happen then does."""

    def __init__(self):
        self.seconds = 0.0
        self.at = {}

    def clock(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds
        for due in [at for at in self.at if at <= self.seconds]:
            self.at.pop(due)()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def stop():
    return StopRequest()


@pytest.fixture
def observer(recorder):
    return recorder()


@pytest.fixture
def silent(store, time, stop, observer):
    def ask(*, on_server=True):
        patience = Patience(
            lease=LEASE, observer=observer, stop=stop, clock=time.clock, sleep=time.sleep
        )
        return silent_claims(store, patience, on_server=on_server)

    return ask


def test_where_no_lease_is_over_nobody_waits(store, silent, time, observer):
    store.claim(ELSEWHERE, "cpu 1")

    assert silent() == frozenset()
    assert (time.seconds, observer.messages) == (0.0, [])


def test_an_owner_that_does_not_renew_its_lease_in_time_is_silent(store, silent, time, observer):
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)

    assert silent() == {claim}
    assert time.seconds == pytest.approx(LATEST_RENEWAL_SECONDS, abs=LEASE.look_seconds)
    (told,) = observer.messages
    assert told.startswith("the leases of what runs on another-host are over")
    assert told.endswith("if it lives it renews them in the next 8 seconds")


def test_one_that_does_is_not_and_ends_the_wait(store, silent, time):
    """The database's clock was set an hour on, say."""
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)
    time.at[6.0] = lambda: store.renew(claim)

    assert silent() == frozenset()
    assert time.seconds == pytest.approx(6.0, abs=LEASE.look_seconds)


def test_a_user_who_asks_to_stop_is_not_kept_waiting_and_nobody_is_taken_for_lost(
    store, silent, time, stop
):
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)
    time.at[1.0] = stop.ask

    assert silent() == frozenset()
    assert time.seconds <= 1.0 + LEASE.look_seconds


def test_whose_death_can_be_seen_is_not_waited_for(store, silent, time):
    store.claim(GONE, "cpu 1", lease_seconds=OVERDUE_SECONDS)

    assert silent() == frozenset()
    assert time.seconds == 0.0


def test_an_sqlite_file_has_no_other_host_to_wait_for(store, silent, time):
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)

    assert silent(on_server=False) == {claim}
    assert time.seconds == 0.0
