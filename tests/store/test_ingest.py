"""Events are stored once, whole batches at a time, whatever happens in between."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest

from sweeper.errors import StoreError
from sweeper.records import Artifact, Phase, PhaseBegun, Skip, encode
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.every_database


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


def test_where_an_attempt_began_what_it_saved_and_its_seconds_are_on_its_row(
    store, attempt, checkpoint, resumed, update
):
    seconds = {"loading": 2.5, "training": 8.0, "checkpointing": 0.25}
    attempt("double/0", checkpoint(3), checkpoint(6))
    attempt(
        "double/0",
        PhaseBegun(phase=Phase.LOADING),
        resumed(6, attempt=1, differences=("2 ranks then, 1 now",)),
        update(window=7),
        PhaseBegun(phase=Phase.ENDING, seconds=seconds),
    )

    first, second = store.attempts("double/0")

    assert (first["resumed_after_window"], first["resumed_from_attempt"]) == (0, None)
    assert (first["checkpoint_window"], first["checkpoint_path"]) == (
        6,
        "trials/double-0/attempts/1/checkpoints/00000006",
    )
    assert (second["resumed_after_window"], second["resumed_from_attempt"]) == (6, 1)
    assert second["resume_checkpoint"].endswith("/attempts/1/checkpoints/00000006")
    assert json.loads(second["resume_differences"]) == ["2 ranks then, 1 now"]
    assert second["checkpoint_window"] is None
    phases = ("loading", "training", "evaluating", "checkpointing", "saving")
    assert [second[f"{phase}_seconds"] for phase in phases] == [2.5, 8.0, None, 0.25, None]


def test_an_attempt_that_only_loaded_has_begun_after_no_window(store, attempt, started, notice):
    attempt("double/0", PhaseBegun(phase=Phase.LOADING), started, notice)

    assert store.attempts("double/0")[0]["resumed_after_window"] is None


def test_weights_best_weights_and_evidence_are_told_apart(store, attempt):
    attempt(
        "double/0",
        Artifact(kind="model", path="adapter", sha256="a0"),
        Artifact(kind="best", path="best", sha256="b0"),
        Artifact(kind="evidence", path="evidence", sha256="e0"),
    )

    (row,) = store.attempts("double/0")
    folder = "trials/double-0/attempts/1"
    assert (row["adapter_path"], row["adapter_sha256"]) == (f"{folder}/adapter", "a0")
    assert (row["best_path"], row["best_sha256"]) == (f"{folder}/best", "b0")
    assert row["evidence_path"] == f"{folder}/evidence"
    assert store.trials("double/0")[0]["best_path"] == f"{folder}/best"


def test_the_file_of_the_records_losses_is_named_as_it_lies_in_the_run_folder(
    store, attempt, evaluation
):
    attempt("double/0", evaluation(per_record_path="evaluations/v.parquet", per_record_sha256="f0"))

    (row,) = store.evaluations()
    assert row["per_record_path"] == "trials/double-0/attempts/1/evaluations/v.parquet"
    assert row["per_record_sha256"] == "f0"


def test_the_scale_of_the_loss_is_stored_where_there_was_one(store, attempt, update):
    attempt("double/0", update(window=1, loss_scale=65536.0), update(window=2))

    assert [row["loss_scale"] for row in store.updates()] == [65536.0, None]


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
    child.stdin.write(encode(second) + "\n")
    child.stdin.flush()
    child.wait_for("stored")

    child.kill()

    with StudyStore.open(url) as reopened:
        assert [row["window"] for row in reopened.updates()] == [1]
        assert reopened.ingest(claim, [first, second]) == 2
        assert [row["window"] for row in reopened.updates()] == [1, 2]
