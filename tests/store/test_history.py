"""A trial's history over its attempts: every window once, every evaluation once."""

from __future__ import annotations

import dataclasses
import shutil
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.errors import StoreError
from sweeper.records import CheckpointMade, Outcome, Reason, Resumed
from sweeper.store.endings import Cost
from sweeper.store.reading import Repeated
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.every_database

CELL = "double/0"


@pytest.fixture
def windows(update):
    """Returns the windows of one attempt, each with 10 targets read and a loss of its own."""

    def read(first, last, *, by):
        return [
            update(
                window=window,
                updates=window,
                target_tokens_read=10 * window,
                target_tokens_applied=10 * window,
                record_digest=f"d{window}",
                loss=by + window / 100,
            )
            for window in range(first, last + 1)
        ]

    return read


@pytest.fixture
def history(store):
    """Returns which attempt's loss stands in each window of the cell, in order."""

    def read():
        return [(row["window"], row["attempt"], row["loss"]) for row in store.updates(CELL)]

    return read


def test_what_a_lost_attempt_did_after_its_checkpoint_is_not_in_it(
    attempt, windows, checkpoint, resumed, history
):
    attempt(CELL, *windows(1, 2, by=1), checkpoint(2), *windows(3, 3, by=1))
    attempt(CELL, resumed(2, attempt=1), *windows(3, 4, by=2))

    assert history() == [(1, 1, 1.01), (2, 1, 1.02), (3, 2, 2.03), (4, 2, 2.04)]


def test_what_was_done_again_is_counted_as_work_beside_the_history(
    store, attempt, windows, checkpoint, resumed
):
    attempt("baseline/0", *windows(1, 2, by=1))
    attempt(CELL, *windows(1, 2, by=1), checkpoint(2), *windows(3, 5, by=1))
    attempt(CELL, resumed(2, attempt=1), *windows(3, 4, by=2))

    assert store.repeated_work() == {CELL: Repeated(windows=3, target_tokens=30, seconds=0.75)}


def test_an_attempt_that_starts_over_leaves_nothing_of_those_before(
    attempt, windows, checkpoint, history
):
    attempt(CELL, *windows(1, 3, by=1), checkpoint(3))
    attempt(CELL, *windows(1, 2, by=2))

    assert history() == [(1, 2, 2.01), (2, 2, 2.02)]


def test_an_attempt_that_saved_nothing_is_not_in_it_once_the_next_goes_on(
    attempt, windows, checkpoint, resumed, history
):
    attempt(CELL, *windows(1, 2, by=1), checkpoint(2))
    attempt(CELL, resumed(2, attempt=1), *windows(3, 5, by=2))
    attempt(CELL, resumed(2, attempt=1), *windows(3, 3, by=3))

    assert history() == [(1, 1, 1.01), (2, 1, 1.02), (3, 3, 3.03)]


def test_there_is_no_hole_where_a_checkpoint_of_an_older_attempt_turned_out_to_be_good(
    attempt, windows, checkpoint, resumed, history
):
    """The second attempt found the first one's checkpoint damaged and started over."""
    attempt(CELL, *windows(1, 3, by=1), checkpoint(3))
    attempt(CELL, *windows(1, 1, by=2), checkpoint(1))
    attempt(CELL, resumed(3, attempt=1), *windows(4, 4, by=3))

    assert history() == [(1, 1, 1.01), (2, 1, 1.02), (3, 1, 1.03), (4, 3, 3.04)]


def test_an_attempt_that_has_not_begun_to_read_takes_nothing_away(
    attempt, windows, checkpoint, started, notice, history
):
    attempt(CELL, *windows(1, 2, by=1), checkpoint(2))
    attempt(CELL, started, notice)
    attempt(CELL, reason=None)

    assert history() == [(1, 1, 1.01), (2, 1, 1.02)]


def test_what_an_attempt_reports_after_its_cell_went_on_without_it_is_not_in_it(
    store, attempt, windows, checkpoint, resumed, numbered, history
):
    first = attempt(CELL, *windows(1, 2, by=1), checkpoint(2))
    attempt(CELL, resumed(2, attempt=1), *windows(3, 3, by=2))

    store.ingest(first, numbered(*windows(3, 4, by=1), first=4))

    assert history() == [(1, 1, 1.01), (2, 1, 1.02), (3, 2, 2.03)]


def test_a_beginning_in_a_later_batch_than_the_start_is_one_all_the_same(
    store, attempt, owner, numbered, started, windows, checkpoint, resumed, history
):
    attempt(CELL, *windows(1, 2, by=1), checkpoint(2))
    claim = store.claim(owner, "cpu0", cell=CELL)
    store.ingest(claim, numbered(started))
    store.ingest(claim, numbered(resumed(2, attempt=1), first=2))
    store.ingest(claim, numbered(*windows(3, 3, by=2), first=3))

    assert history() == [(1, 1, 1.01), (2, 1, 1.02), (3, 2, 2.03)]


def test_an_evaluation_that_was_made_again_counts_as_made_last(
    store, attempt, windows, checkpoint, resumed, evaluation
):
    """Both belong to the checkpoint's window; the one after it was made again too."""
    before = evaluation(index=0, window=0, loss=9.0)
    at_two, at_three = evaluation(index=1, window=2), evaluation(index=2, window=3)
    attempt(
        CELL,
        before,
        *windows(1, 2, by=1),
        checkpoint(2),
        dataclasses.replace(at_two, loss=5.0),
        *windows(3, 3, by=1),
        dataclasses.replace(at_three, loss=4.0),
    )
    attempt(
        CELL,
        resumed(2, attempt=1),
        dataclasses.replace(at_two, loss=3.0),
        *windows(3, 3, by=2),
    )

    found = [(row["grid_index"], row["attempt"], row["loss"]) for row in store.evaluations(CELL)]
    assert found == [(0, 1, 9.0), (1, 2, 3.0)]


def test_a_trial_s_row_counts_its_history_and_costs_all_its_attempts(
    store, owner, numbered, ended, windows, checkpoint, resumed, evaluation
):
    first = store.claim(owner, "cpu0", cell=CELL)
    store.ingest(
        first,
        numbered(
            evaluation(index=0, loss=9.0), *windows(1, 2, by=1), checkpoint(2), *windows(3, 4, by=1)
        ),
    )
    cost = Cost(wall_seconds=4.0, peak_memory_bytes=100)
    store.finish(first, ended(Reason.KILLED), max_resumes=3, cost=cost)
    second = store.claim(owner, "cpu0", cell=CELL)
    store.ingest(second, numbered(resumed(2, attempt=1), *windows(3, 3, by=2)))
    cost = Cost(wall_seconds=3.0, peak_memory_bytes=70)
    store.finish(second, ended(Reason.KILLED), max_resumes=3, cost=cost)

    (row,) = store.trials(CELL)

    counted = ("windows", "updates", "target_tokens_read", "target_tokens_applied", "records")
    assert [row[name] for name in counted] == [3, 3, 30, 30, 6]
    assert (row["initial_loss"], row["first_window_loss"]) == (9.0, 1.01)
    assert (row["last_finite_loss"], row["record_digest"]) == (2.03, "d3")
    assert (row["attempts"], row["wall_seconds"], row["peak_memory_bytes"]) == (2, 7.0, 100)


def test_a_cell_whose_next_attempt_has_not_begun_shows_how_far_it_came(
    store, attempt, windows, checkpoint, started, evaluation
):
    attempt(CELL, started, evaluation(index=0), *windows(1, 2, by=1), checkpoint(2))
    attempt(CELL, reason=None)

    (row,) = store.trials(CELL)
    assert (row["status"], row["attempts"], row["windows"]) == ("running", 2, 2)
    assert (row["last_finite_loss"], row["initial_digest"]) == (1.02, "a" * 64)


def test_what_every_attempt_in_it_started_from_is_there_in_order(
    store, attempt, windows, checkpoint, resumed, started
):
    on_gpu = dataclasses.replace(started, environment={"device": "H200"})
    attempt(CELL, started, *windows(1, 2, by=1), checkpoint(2))
    attempt(CELL, started, resumed(2, attempt=1))
    attempt(CELL, on_gpu, resumed(2, attempt=1, differences=("on cuda now",)))

    first, last = store.stretches()

    assert (first.attempt, first.resumed_after_window, first.resume_differences) == (1, 0, ())
    assert (last.attempt, last.resumed_after_window) == (3, 2)
    assert last.resume_differences == ("on cuda now",)
    assert last.environment == {"device": "H200"}


@pytest.mark.parametrize("checkpoint", ["2/checkpoints/00000004", "checkpoints/00000004", "x"])
def test_a_checkpoint_of_no_earlier_attempt_is_refused(attempt, checkpoint):
    attempt(CELL)

    with pytest.raises(StoreError, match="a checkpoint of no earlier attempt"):
        attempt(CELL, Resumed(after_window=4, checkpoint=checkpoint, sha256="c0"))


class Reference:
    """The same by the book: an attempt takes over a copy of a list and goes on with it."""

    def __init__(self):
        self.saved = {}
        self.now = []
        self.attempts = 0

    def attempt(self, choice):
        """Returns the records of an attempt that goes on from some checkpoint, or from none."""
        self.attempts += 1
        records, history = [], []
        if self.saved and choice(st.booleans()):
            maker, window = choice(st.sampled_from(sorted(self.saved)))
            history = list(self.saved[maker, window])
            path = f"{maker}/checkpoints/{window:08d}"
            records.append(Resumed(after_window=window, checkpoint=path, sha256="c0"))
        for _ in range(choice(st.integers(0, 4))):
            history.append((len(history) + 1, self.attempts))
            records.append(len(history))
            if choice(st.booleans()):
                self.saved[self.attempts, len(history)] = list(history)
                path = f"checkpoints/{len(history):08d}"
                records.append(
                    CheckpointMade(window=len(history), path=path, sha256="c0", size_bytes=1)
                )
        if records:
            self.now = history
        return records


@given(choices=st.data())
@settings(
    max_examples=settings().max_examples // 3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_whatever_attempts_go_on_from_it_is_what_the_last_one_carried_on(
    choices, planned_database, owner, update, numbered
):
    reference = Reference()
    with (
        TemporaryDirectory() as folder,
        StudyStore.open(f"sqlite:///{shutil.copy(planned_database, folder)}") as store,
    ):
        for _ in range(choices.draw(st.integers(1, 6))):
            records = reference.attempt(choices.draw)
            claim = store.claim(owner, "cpu0", cell=CELL)
            store.ingest(claim, numbered(*(as_update(record, update) for record in records)))
            cancelled = Outcome(reason=Reason.USER_CANCELLED, detail="")
            store.finish(claim, cancelled, max_resumes=0)
        found = [(row["window"], row["attempt"]) for row in store.updates(CELL)]
    assert found == reference.now


def as_update(record, update):
    """Returns the window's update for its bare number."""
    return update(window=record, updates=record) if isinstance(record, int) else record
