"""A seed's first attempt fixes where its cells may run."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from sweeper.records import Reason
from sweeper.store.interventions import Intervention
from sweeper.store.placement import Misfit, SeedPlace, SlotRecord, misfit, why_waiting
from sweeper.study.same_environment import Difference

A100 = {"device": "NVIDIA A100", "torch": "2.13.0"}
H100 = {"device": "NVIDIA H100", "torch": "2.13.0"}
SOME = {"device": "a GPU", "torch": "2.13.0"}


@pytest.fixture
def began(store, owner, numbered, started):
    """Claims a cell on a slot of which this is known, and reports an environment, if any."""

    def begin(known, *, reports=None, slot="gpu 0", who=owner, cell=None):
        store.record_slots(who, {slot: known})
        claim = store.claim(who, slot, known=known, cell=cell)
        if reports is not None:
            record = dataclasses.replace(started, environment=reports)
            store.ingest(claim, numbered(record))
        return claim

    return begin


def claimed(store, owner, known, *, slot="gpu 1"):
    claim = store.claim(owner, slot, known=known)
    return None if claim is None else claim.cell


@pytest.mark.every_database
def test_a_claim_fixes_the_seed_before_its_attempt_has_said_anything(store, owner, began):
    began(A100)

    assert claimed(store, owner, H100) == "baseline/1"
    assert claimed(store, owner, A100, slot="gpu 2") == "double/0"


@pytest.mark.every_database
def test_what_was_reported_holds_also_when_the_attempt_has_ended(store, owner, began, ended):
    claim = began(SOME, reports=A100)
    store.finish(claim, ended(Reason.KILLED), max_resumes=3)

    assert claimed(store, owner, H100) == "baseline/1"
    assert claimed(store, owner, A100, slot="gpu 2") == "baseline/0"


@pytest.mark.every_database
def test_an_attempt_that_ended_without_a_word_fixes_nothing(store, owner, began, ended):
    store.finish(began(A100), ended(Reason.KILLED), max_resumes=3)

    assert store.seed_places() == {}
    assert claimed(store, owner, H100) == "baseline/0"


@pytest.mark.every_database
def test_the_first_attempt_counts_whichever_reports_first(store, began):
    began(A100)
    began(A100, slot="gpu 1", reports=A100 | {"cuda": "12.8"})

    place = store.seed_places()[0]

    assert (place.cell, place.attempt, place.is_reported) == ("baseline/0", 1, False)
    assert place.environment == A100


@pytest.mark.every_database
def test_a_retry_from_the_start_leaves_behind_where_it_ran(store, owner, began, ended):
    claim = began(A100, reports=A100)
    store.finish(claim, ended(Reason.CODE_ERROR), max_resumes=3)
    store.reopen("baseline/0", kind=Intervention.RETRY, from_the_start=True)

    assert claimed(store, owner, H100) == "baseline/0"


@pytest.mark.every_database
def test_whoever_asks_for_any_cell_gets_the_first(store, owner, began):
    began(A100)

    assert store.claim(owner, "gpu 1").cell == "double/0"


@pytest.mark.every_database
def test_two_slots_that_claim_at_once_do_not_fix_a_seed_twice(store, owner):
    """Eight of two models: whatever their order, no seed has both."""
    known = {f"gpu {n}": (A100, H100)[n % 2] for n in range(8)}
    store.record_slots(owner, known)
    barrier = threading.Barrier(8)
    claims = {}

    def claim(slot):
        barrier.wait()
        claims[slot] = store.claim(owner, slot, known=known[slot])

    threads = [threading.Thread(target=claim, args=(slot,)) for slot in known]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = {(c.seed, known[slot]["device"]) for slot, c in claims.items() if c is not None}
    assert len(found) == 2, "each of two seeds on one model"


@pytest.mark.every_database
def test_slots_are_on_record_until_others_take_their_place(store, owner, other_owner):
    store.record_slots(owner, {"gpu 0": A100, "gpu 1": A100})
    store.record_slots(owner, {"gpu 1": H100})
    (first, second) = store.slots()
    assert (first.slot, first.environment) == ("gpu 0", A100)
    assert (second.slot, second.environment) == ("gpu 1", H100)

    store.record_slots(other_owner, {"cpu 1": {}}, instead_of=store.slots())

    assert [(each.host, each.slot) for each in store.slots()] == [("there", "cpu 1")]


# --- the rule alone -----------------------------------------------------------------------------


def place(environment, *, is_reported, host="here"):
    return SeedPlace(
        seed=0,
        cell="baseline/0",
        attempt=1,
        host=host,
        environment=environment,
        is_reported=is_reported,
    )


@pytest.mark.parametrize(
    ("began_on", "known", "fits"),
    [
        (None, A100, True),
        (place(A100, is_reported=True), A100, True),
        (place(A100, is_reported=True), {}, True),
        (place(A100, is_reported=True), SOME, True),
        (place(A100, is_reported=True), H100, False),
        (place(A100, is_reported=True, host="there"), A100, True),
        (place(A100, is_reported=False), A100, True),
        (place(A100, is_reported=False), H100, False),
        (place(A100, is_reported=False, host="there"), A100, False),
        (place(A100, is_reported=False), SOME, False),
        (place(SOME, is_reported=False), A100, False),
        (place({}, is_reported=False), {}, False),
    ],
    ids=[
        "nobody has begun",
        "the same",
        "an engine's, whose trial will see",
        "of some model, whose trial will see",
        "another model",
        "the same on another host",
        "running, on a slot that is known",
        "running, on another model",
        "running on another host, of which not all is known",
        "running, while this slot's model is unknown",
        "running, on a slot whose model is unknown",
        "running, somewhere in an engine",
    ],
)
def test_a_cell_is_for_a_slot_like_that_of_its_seed_s_first(began_on, known, fits):
    assert (misfit(began_on, known, host="here") is None) is fits


def test_what_is_only_not_known_yet_may_pass():
    unknown = misfit(place({}, is_reported=False), {}, host="here")
    other = misfit(place(A100, is_reported=True), H100, host="here")

    assert unknown == Misfit(place=place({}, is_reported=False))
    assert unknown.may_pass
    assert other.differences == (
        Difference(field="device", began_with="NVIDIA A100", has="NVIDIA H100"),
    )
    assert not other.may_pass


def slot(name, environment):
    return SlotRecord(host="here", pid=1, started_at="1.0", slot=name, environment=environment)


@pytest.mark.parametrize(
    ("began_on", "slots", "why"),
    [
        (None, [slot("gpu 0", H100)], None),
        (place(A100, is_reported=True), [slot("gpu 0", H100), slot("gpu 1", A100)], None),
        (place(A100, is_reported=True), [], None),
        (
            place(A100, is_reported=True),
            [slot("gpu 0", H100), slot("cpu 1", {"device": "cpu", "torch": "2.14.0"})],
            (
                "its seed began with baseline/0 on device NVIDIA A100, torch 2.13.0; slot gpu 0 "
                "has device NVIDIA H100; slot cpu 1 has device cpu, torch 2.14.0"
            ),
        ),
        (
            place({}, is_reported=False),
            [slot("slurm 1", {})],
            "its seed began with baseline/0, which has not reported yet what it runs on",
        ),
    ],
    ids=["it may begin", "one fits", "nobody knows of slots", "none fits", "soon"],
)
def test_why_a_cell_waits_is_told_with_all_that_differs(began_on, slots, why):
    assert why_waiting(began_on, slots) == why
