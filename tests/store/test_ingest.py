"""Events are stored once, whole batches at a time, whatever happens in between."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from sweeper.errors import StoreError
from sweeper.records import Skip, encode
from sweeper.store.store import StudyStore


def test_events_come_back_as_they_were_reported(store, owner, numbered, asides):
    claim = store.claim(owner, "cpu0")

    assert store.ingest(claim, numbered(*asides)) == 5

    assert [note.event for note in store.notes()] == list(numbered(*asides))
    assert [note.attempt for note in store.notes("baseline/0")] == [1] * 5
    assert store.notes("double/0") == ()


def test_reading_the_same_events_again_changes_nothing(store, owner, numbered, update, notice):
    events = numbered(notice, update(window=1), update(window=2))
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, events[:2])

    assert store.ingest(claim, events) == 3
    assert store.ingest(claim, events) == 3
    assert store.ingest(claim, events[:1]) == 3

    assert [row["window"] for row in store.updates()] == [1, 2]
    assert len(store.notes()) == 1


def test_a_missing_sequence_number_is_refused_and_nothing_of_the_batch_is_stored(
    store, owner, numbered, update
):
    claim = store.claim(owner, "cpu0")
    events = numbered(update(window=1), update(window=2), update(window=3))

    with pytest.raises(StoreError, match=r"got sequence number 3; expected 2"):
        store.ingest(claim, (events[0], events[2]))

    assert store.updates() == []


def test_numbers_keep_every_bit(store, owner, numbered, update):
    claim = store.claim(owner, "cpu0")
    loss = 0.1 + 0.2

    store.ingest(claim, numbered(update(loss=loss, learning_rate=5e-324)))

    (row,) = store.updates()
    assert (row["loss"].hex(), row["learning_rate"].hex()) == (loss.hex(), (5e-324).hex())


def test_nonfinite_numbers_are_null_and_named_beside(store, owner, numbered, update, evaluation):
    bad = update(
        loss=math.nan, gradient_norm=math.inf, ran=False, skip=Skip.NONFINITE_LOSS, updates=0
    )
    claim = store.claim(owner, "cpu0")

    store.ingest(claim, numbered(bad, evaluation(loss=-math.inf)))

    (update_row,) = store.updates()
    (evaluation_row,) = store.evaluations()
    assert (update_row["loss"], update_row["gradient_norm"]) == (None, None)
    assert (update_row["skip"], update_row["nonfinite"]) == (
        "nonfinite_loss",
        "gradient_norm=inf loss=nan",
    )
    assert (evaluation_row["loss"], evaluation_row["nonfinite"]) == (None, "loss=-inf")


def test_finite_numbers_have_nothing_named_beside(store, owner, numbered, update):
    claim = store.claim(owner, "cpu0")

    store.ingest(claim, numbered(update()))

    assert store.updates()[0]["nonfinite"] is None


def test_what_an_attempt_starts_from_is_readable_by_field(store, owner, numbered, started):
    claim = store.claim(owner, "cpu0", cell="double/1")

    store.ingest(claim, numbered(started))

    (start,) = store.starts()
    assert (start.cell, start.attempt, start.trainable_parameters) == ("double/1", 1, 1234)
    assert start.initial_digest == started.initial_digest
    assert start.adapted_modules == ("q_proj", "v_proj")
    assert start.environment == {"torch": "2.13.0", "threads": "1"}


def test_events_of_an_attempt_that_lost_its_cell_are_kept_as_its_history(
    store, owner, numbered, update, notice
):
    old = store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)
    new = store.claim(owner, "cpu0")
    store.ingest(new, numbered(update(record_digest="new")))

    store.ingest(old, numbered(update(record_digest="old"), notice))

    assert [row["record_digest"] for row in store.updates()] == ["new"]
    assert [note.attempt for note in store.notes()] == [1]


def test_times_are_stored_as_utc_text(store, owner, numbered, update):
    claim = store.claim(owner, "cpu0")

    store.ingest(claim, numbered(update()))

    at = datetime.fromisoformat(store.updates()[0]["at"])
    assert at == datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)


def test_a_writer_killed_in_the_middle_of_a_transaction_leaves_nothing_of_it(
    store, url, owner, numbered, update, start_children
):
    first, second = numbered(update(window=1), update(window=2))
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, [first])
    (child,) = start_children(1, "ingest_and_hang.py", url)
    child.process.stdin.write(encode(second) + "\n")
    child.process.stdin.flush()
    child.wait_for("stored")

    child.process.kill()
    child.process.wait()

    with StudyStore.open(url) as reopened:
        assert [row["window"] for row in reopened.updates()] == [1]
        assert reopened.ingest(claim, [first, second]) == 2
        assert [row["window"] for row in reopened.updates()] == [1, 2]
