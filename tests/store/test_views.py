"""The views that users query: exactly these columns, and these numbers."""

from __future__ import annotations

import math
import sqlite3

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy.dialects import postgresql

from sweeper.records import Reason, Skip
from sweeper.store.endings import Cost
from sweeper.store.views import view_queries

pytestmark = pytest.mark.every_database

TRIAL_COLUMNS = [
    "trial",
    "arm",
    "seed",
    "learning_rate",
    "round",
    "status",
    "outcome",
    "reason",
    "detail",
    "initial_loss",
    "first_window_loss",
    "validation_loss",
    "last_finite_loss",
    "retention_initial_loss",
    "retention_loss",
    "target_tokens_read",
    "target_tokens_applied",
    "records",
    "input_tokens",
    "padding_tokens",
    "windows",
    "updates",
    "skipped",
    "clipped",
    "wall_seconds",
    "peak_memory_bytes",
    "attempts",
    "adapter_path",
    "best_path",
    "initial_digest",
    "record_digest",
    "optuna_number",
    "fingerprint",
]

UPDATE_COLUMNS = [
    "trial",
    "arm",
    "seed",
    "attempt",
    "sequence",
    "window",
    "updates",
    "first_record",
    "records",
    "record_digest",
    "target_tokens",
    "target_tokens_read",
    "target_tokens_applied",
    "input_tokens",
    "padding_tokens",
    "learning_rate",
    "loss",
    "gradient_norm",
    "clipped",
    "ran",
    "skip",
    "loss_scale",
    "seconds",
    "peak_memory_bytes",
    "nonfinite",
    "at",
]

EVALUATION_COLUMNS = [
    "trial",
    "arm",
    "seed",
    "attempt",
    "sequence",
    "split",
    "grid_index",
    "window",
    "target_tokens_read",
    "updates",
    "loss",
    "target_tokens",
    "records",
    "set_digest",
    "dtype",
    "micro_batch",
    "seconds",
    "per_record_path",
    "per_record_sha256",
    "nonfinite",
    "at",
]

ATTEMPT_COLUMNS = [
    "trial",
    "arm",
    "seed",
    "attempt",
    "updates",
    "fencing_number",
    "worker",
    "host",
    "pid",
    "process_started_at",
    "slot",
    "folder",
    "claimed_at",
    "lease_expires_at",
    "supervisor_pid",
    "supervisor_started_at",
    "child_pid",
    "child_started_at",
    "initial_digest",
    "trainable_parameters",
    "adapted_modules",
    "environment",
    "configuration",
    "resumed_after_window",
    "resumed_from_attempt",
    "resume_checkpoint",
    "resume_differences",
    "checkpoint_window",
    "checkpoint_path",
    "loading_seconds",
    "training_seconds",
    "evaluating_seconds",
    "checkpointing_seconds",
    "saving_seconds",
    "adapter_path",
    "adapter_sha256",
    "best_path",
    "best_sha256",
    "evidence_path",
    "ended_at",
    "outcome",
    "reason",
    "detail",
    "evidence",
    "exit_status",
    "wall_seconds",
    "peak_memory_bytes",
]


@pytest.fixture
def history(numbered, started, update, evaluation, artifact):
    """Two windows, the second clipped, and evaluations of both splits before and after."""
    return numbered(
        started,
        evaluation(split="validation", index=0, loss=3.0),
        evaluation(split="retention", index=0, loss=4.0),
        update(window=1, updates=1, record_digest="d1", loss=2.5),
        update(
            window=2,
            updates=2,
            record_digest="d2",
            target_tokens=90,
            target_tokens_read=100,
            target_tokens_applied=100,
            loss=2.25,
            clipped=True,
        ),
        evaluation(split="validation", index=1, window=2, loss=2.0, target_tokens_read=100),
        evaluation(split="retention", index=1, window=2, loss=4.125, target_tokens_read=100),
        artifact,
    )


@pytest.fixture
def raw_rows(url, database):
    """Reads a view as a user of SQL does, without this package."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(database)
        connection.row_factory = sqlite3.Row
    else:
        connection = psycopg.connect(url.replace("+psycopg", ""), row_factory=dict_row)

    def read(view):
        return [dict(row) for row in connection.execute(f"SELECT * FROM {view}")]

    yield read
    connection.close()


@pytest.fixture
def completed_trial(store, owner, history, completed):
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, history)
    cost = Cost(wall_seconds=8.0, peak_memory_bytes=500, exit_status=0)
    store.finish(claim, completed, max_resumes=3, cost=cost)
    return claim


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        ("sweeper_trials", TRIAL_COLUMNS),
        ("sweeper_updates", UPDATE_COLUMNS),
        ("sweeper_evaluations", EVALUATION_COLUMNS),
        ("sweeper_attempts", ATTEMPT_COLUMNS),
    ],
)
def test_a_view_has_exactly_the_documented_columns(completed_trial, raw_rows, view, columns):
    assert list(raw_rows(view)[0]) == columns


@pytest.mark.parametrize(
    ("view", "method"),
    [
        ("sweeper_trials", "trials"),
        ("sweeper_updates", "updates"),
        ("sweeper_evaluations", "evaluations"),
        ("sweeper_attempts", "attempts"),
    ],
)
def test_the_same_rows_come_from_sql_and_from_the_store(
    store, completed_trial, raw_rows, view, method
):
    """In any order: a view has none of its own."""
    rows, raw = sorted(getattr(store, method)(), key=repr), sorted(raw_rows(view), key=repr)

    assert rows == raw
    assert [list(row) for row in rows] == [list(row) for row in raw]


def test_a_completed_trials_row(store, completed_trial, study):
    assert store.trials()[0] == {
        "trial": "baseline/0",
        "arm": "baseline",
        "seed": 0,
        "learning_rate": 0.0002,
        "round": 0,
        "status": "ended",
        "outcome": "completed",
        "reason": "budget_reached",
        "detail": "read 100 of 100 target tokens",
        "initial_loss": 3.0,
        "first_window_loss": 2.5,
        "validation_loss": 2.0,
        "last_finite_loss": 2.25,
        "retention_initial_loss": 4.0,
        "retention_loss": 4.125,
        "target_tokens_read": 100,
        "target_tokens_applied": 100,
        "records": 4,
        "input_tokens": 60,
        "padding_tokens": 8,
        "windows": 2,
        "updates": 2,
        "skipped": 0,
        "clipped": 1,
        "wall_seconds": 8.0,
        "peak_memory_bytes": 500,
        "attempts": 1,
        "adapter_path": "trials/baseline-0/attempts/1/adapter",
        "best_path": None,
        "initial_digest": "a" * 64,
        "record_digest": "d2",
        "optuna_number": None,
        "fingerprint": study.fingerprint,
    }


def test_truth_values_are_truth_values(store, completed_trial):
    assert [(row["ran"], row["clipped"]) for row in store.updates()] == [
        (True, False),
        (True, True),
    ]
    assert store.updates()[0]["ran"] is True


def test_a_cell_that_never_started_has_a_row_with_nothing_known(store):
    row = store.trials()[3]

    known = {name: value for name, value in row.items() if value is not None}
    assert known == {
        "trial": "double/1",
        "arm": "double",
        "seed": 1,
        "learning_rate": 0.0004,
        "round": 0,
        "status": "waiting",
        "attempts": 0,
        "fingerprint": "f" * 64,
    }


def test_a_trial_that_failed_before_its_first_window_read_nothing(store, owner, ended):
    store.finish(store.claim(owner, "cpu0"), ended(Reason.CODE_ERROR), max_resumes=3)

    row = store.trials()[0]
    assert (row["target_tokens_read"], row["windows"], row["skipped"]) == (0, 0, 0)
    assert row["first_window_loss"] is None


def test_a_stopped_trial_has_no_endpoint_but_its_last_finite_loss(
    store, owner, numbered, update, evaluation, ended
):
    bad = update(
        window=2, loss=math.nan, ran=False, skip=Skip.NONFINITE_LOSS, target_tokens_read=20
    )
    claim = store.claim(owner, "cpu0")
    store.ingest(
        claim,
        numbered(
            evaluation(index=0), update(window=1, loss=2.5), evaluation(index=1, loss=2.9), bad
        ),
    )
    store.finish(claim, ended(Reason.NONFINITE_LOSS), max_resumes=3)

    row = store.trials()[0]
    assert (row["outcome"], row["reason"]) == ("stopped", "nonfinite_loss")
    assert (row["initial_loss"], row["last_finite_loss"]) == (3.0, 2.5)
    assert (row["validation_loss"], row["retention_loss"]) == (None, None)
    assert (row["target_tokens_read"], row["target_tokens_applied"]) == (20, 10)
    assert (row["windows"], row["updates"], row["skipped"]) == (2, 1, 1)
    assert [attempt["updates"] for attempt in store.attempts()] == [1], "a skipped window is none"


def test_an_evaluation_made_before_the_last_window_is_no_endpoint(
    store, owner, numbered, update, evaluation, completed
):
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(evaluation(index=0, target_tokens_read=0), update()))
    store.finish(claim, completed, max_resumes=3)

    row = store.trials()[0]
    assert (row["initial_loss"], row["validation_loss"]) == (3.0, None)


def test_windows_run_again_after_a_loss_appear_once_and_cost_is_summed(
    store, owner, history, completed, ended
):
    first = store.claim(owner, "cpu0")
    store.ingest(first, history)
    store.finish(
        first,
        ended(Reason.KILLED),
        max_resumes=3,
        cost=Cost(wall_seconds=2.5, peak_memory_bytes=900, exit_status=-9),
    )
    second = store.claim(owner, "cpu0")
    store.ingest(second, history)
    store.finish(
        second, completed, max_resumes=3, cost=Cost(wall_seconds=8.0, peak_memory_bytes=500)
    )

    assert [(row["attempt"], row["window"], row["loss"]) for row in store.updates()] == [
        (2, 1, 2.5),
        (2, 2, 2.25),
    ]
    row = store.trials()[0]
    assert (row["windows"], row["first_window_loss"], row["attempts"]) == (2, 2.5, 2)
    assert (row["wall_seconds"], row["peak_memory_bytes"]) == (10.5, 900)
    assert row["adapter_path"] == "trials/baseline-0/attempts/2/adapter"
    assert [row["exit_status"] for row in store.attempts()] == [-9, None]
    assert [row["updates"] for row in store.attempts()] == [2, 2], "made anew, and counted in each"


def test_a_running_trial_shows_how_far_it_has_come(store, owner, numbered, update, evaluation):
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(evaluation(), update()))

    row = store.trials()[0]
    assert (row["status"], row["outcome"], row["validation_loss"]) == ("running", None, None)
    assert (row["target_tokens_read"], row["last_finite_loss"]) == (10, 2.5)


def test_rows_come_in_plan_order_and_of_one_cell_if_asked(store, owner, numbered, update):
    for cell in ("double/1", "baseline/0"):
        claim = store.claim(owner, "cpu0", cell=cell)
        store.ingest(claim, numbered(update(window=1), update(window=2)))

    assert [(row["trial"], row["window"]) for row in store.updates()] == [
        ("baseline/0", 1),
        ("baseline/0", 2),
        ("double/1", 1),
        ("double/1", 2),
    ]
    assert [row["trial"] for row in store.updates("double/1")] == ["double/1"] * 2
    assert [row["trial"] for row in store.attempts("double/1")] == ["double/1"]


@pytest.mark.parametrize(
    "view", ["sweeper_trials", "sweeper_updates", "sweeper_evaluations", "sweeper_attempts"]
)
def test_every_view_can_be_written_for_postgresql(view):
    query = view_queries("training.learning_rate", is_text=False, best_validation=True)[view]

    statement = str(
        query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    )

    assert "SELECT sweeper_cell.cell AS trial" in statement
    assert "%(" not in statement
