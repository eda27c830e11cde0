"""What other coordinators run or have left, as one of them finds it now and then."""

import pytest

from sweeper.store.claims import Owner
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.finishing import Terms
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.others import Others, Shared
from sweeper.workers.liveness import host_name

LEASE = LeaseTerms(seconds=30.0, kill_grace_seconds=6.0)
GONE = Owner(worker="worker", host=host_name(), pid=2**22 + 1, started_at="1.0")
ELSEWHERE = Owner(worker="worker", host="another-host", pid=1, started_at="1.0")
OVERDUE_SECONDS = -60.0


@pytest.fixture
def observer(recorder):
    return recorder()


@pytest.fixture
def me(study):
    with only_coordinator(study.folder) as owner:
        yield owner


@pytest.fixture
def others(study, store, me, observer, clock):
    shared = Shared(
        store=store,
        folder=study.folder,
        owner=me,
        terms=Terms(budget_target_tokens=40, max_resumes=1),
        lease=LEASE,
        observer=observer,
    )
    return Others(shared, clock=clock)


def reasons(store):
    return [row["reason"] for row in store.attempts()]


def look_again(others, clock, seconds=LEASE.second_look_seconds):
    others.look()
    clock.seconds += seconds
    others.look()


def test_what_another_host_runs_is_left_alone_and_told(others, store, clock):
    claim = store.claim(ELSEWHERE, "cpu 1")

    look_again(others, clock)

    assert reasons(store) == [None]
    assert others.running() == (claim,)


def test_what_another_host_has_left_is_ended_at_the_second_look(others, store, clock, observer):
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)
    others.look()
    assert reasons(store) == [None]

    clock.seconds += LEASE.second_look_seconds
    others.look()

    assert reasons(store) == ["worker_lost"]
    assert observer.messages == ["baseline/0: taken over from another-host, overdue"]
    assert others.running() == ()


def test_an_owner_that_renews_its_lease_when_the_database_is_back_keeps_its_trial(
    others, store, clock
):
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)
    others.look()
    store.renew(claim)

    clock.seconds += LEASE.second_look_seconds
    others.look()

    assert reasons(store) == [None]


def test_a_step_of_the_database_s_clock_takes_no_trial_from_an_owner_that_renews_in_its_time(
    others, store, clock
):
    """Every lease looks to be long over then, until the owner renews it: after a fifth of it."""
    claim = store.claim(ELSEWHERE, "cpu 1", lease_seconds=OVERDUE_SECONDS)
    renewal_seconds = 30.0 / 5
    others.look()

    for _ in range(6):
        clock.seconds += renewal_seconds / 6
        others.look()
    assert reasons(store) == [None]
    store.renew(claim)
    clock.seconds += renewal_seconds
    others.look()

    assert reasons(store) == [None]
    assert others.running() == (claim,)


def test_a_lease_that_is_over_but_not_for_long_is_not_taken_over(others, store, clock):
    store.claim(ELSEWHERE, "cpu 1", lease_seconds=-LEASE.overdue_seconds + 10)

    look_again(others, clock)

    assert reasons(store) == [None]


def test_an_owner_of_this_host_that_is_dead_is_known_to_be_without_its_lease(
    others, store, clock, observer
):
    store.claim(GONE, "cpu 1")

    look_again(others, clock)

    assert reasons(store) == ["worker_lost"]
    assert f"left by process {GONE.pid}" in observer.messages[0]


def test_what_a_slot_of_this_process_has_is_none_of_it(others, store, me, clock):
    claim = others.hold(lambda: store.claim(me, "cpu 0", lease_seconds=OVERDUE_SECONDS))

    look_again(others, clock)

    assert reasons(store) == [None]
    assert others.running() == ()

    others.let_go(claim)
    clock.seconds += LEASE.look_seconds
    look_again(others, clock)

    assert reasons(store) == ["worker_lost"], "its slot gave up, and nobody runs it"


def test_there_is_no_look_before_its_time(others, store, clock):
    others.look()
    store.claim(GONE, "cpu 1")

    others.look()
    clock.seconds += LEASE.look_seconds
    others.look()
    assert reasons(store) == [None], "that was the first that it was seen at"

    clock.seconds += LEASE.second_look_seconds
    others.look()
    assert reasons(store) == ["worker_lost"]


def test_waiting_is_told_once_for_each_host(others, store, observer):
    claim = store.claim(ELSEWHERE, "cpu 1")

    others.tell_waiting([claim])
    others.tell_waiting([claim])

    (told,) = observer.messages
    assert told.startswith("nothing to start now: waiting for what runs on another-host")


def test_where_there_can_be_no_others_nothing_is_looked_at():
    others = Others(None)

    others.look()

    assert not others.may_exist
    assert others.running() == ()
