"""The losses that stand for a trial: at the start, and at the declared checkpoint."""

from __future__ import annotations

import dataclasses
import math

import pytest

from sweeper.records import Reason
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.every_database

CELL = "double/0"
BEST = {"selection": {"checkpoint": "best_validation"}}
LAST = {"selection": {"checkpoint": "last"}}


@pytest.fixture
def measured(url, study, cells, owner, numbered, update, evaluation, ended):
    """Returns the row of a trial with these losses of both splits, by grid index."""

    def record(protocol, *, validation, retention, reason=Reason.BUDGET_REACHED):
        with StudyStore.create(url) as store:
            store.record_study(dataclasses.replace(study, protocol=protocol))
            store.add_cells(cells)
            records = [
                record
                for index, losses in enumerate(zip(validation, retention, strict=True))
                for record in at(index, losses)
            ]
            claim = store.claim(owner, "cpu0", cell=CELL)
            store.ingest(claim, numbered(*records))
            store.finish(claim, ended(reason), max_resumes=3)
            return store.trials(CELL)[0]

    def at(index, losses):
        window = [update(window=index, updates=index, target_tokens_read=10 * index)]
        place = {"index": index, "window": index, "target_tokens_read": 10 * index}
        scored = [
            evaluation(split=split, loss=loss, **place)
            for split, loss in zip(("validation", "retention"), losses, strict=True)
        ]
        return [*window[: index > 0], *scored]

    return record


def test_the_last_losses_are_those_after_the_last_window(measured):
    row = measured(LAST, validation=[4.0, 1.0, 2.0], retention=[5.0, 6.0, 7.0])

    assert (row["validation_loss"], row["retention_loss"]) == (2.0, 7.0)


def test_the_best_loss_is_the_lowest_with_the_retention_loss_of_the_same_place(measured):
    row = measured(BEST, validation=[4.0, 2.5, 1.5, 2.0], retention=[5.0, 6.0, 7.0, 4.5])

    assert (row["validation_loss"], row["retention_loss"]) == (1.5, 7.0)


@pytest.mark.parametrize(
    ("validation", "loss", "retention"),
    [
        ([4.0, 1.5, 1.5], 1.5, 6.0),
        ([0.5, 3.0, 2.0], 2.0, 7.0),
        ([4.0, math.nan, 2.0], 2.0, 7.0),
        ([4.0, -math.inf, 2.0], 2.0, 7.0),
    ],
    ids=[
        "of equal losses the earliest",
        "none before an update",
        "none that is nan",
        "nor infinite",
    ],
)
def test_the_best_loss_is_found_among_those_that_count(measured, validation, loss, retention):
    row = measured(BEST, validation=validation, retention=[5.0, 6.0, 7.0])

    assert (row["validation_loss"], row["retention_loss"]) == (loss, retention)


@pytest.mark.parametrize("protocol", [BEST, LAST])
def test_the_losses_before_the_first_update_are_the_same_by_either_rule(measured, protocol):
    row = measured(protocol, validation=[4.0, 1.5, 2.0], retention=[5.0, 6.0, 7.0])

    assert (row["initial_loss"], row["retention_initial_loss"]) == (4.0, 5.0)


@pytest.mark.parametrize("protocol", [BEST, LAST])
def test_a_trial_that_is_not_complete_has_no_endpoint(measured, protocol):
    row = measured(
        protocol, validation=[4.0, 1.5], retention=[5.0, 6.0], reason=Reason.NONFINITE_LOSS
    )

    assert (row["validation_loss"], row["retention_loss"]) == (None, None)


@pytest.mark.parametrize("protocol", [{}, {"selection": None}, LAST])
def test_a_study_that_does_not_ask_for_the_best_counts_the_last(study, protocol):
    assert not dataclasses.replace(study, protocol=protocol).is_best_validation


def test_the_best_loss_of_a_trial_that_was_resumed_may_lie_in_an_earlier_attempt(
    url, study, cells, owner, numbered, evaluation, update, checkpoint, resumed, ended
):
    with StudyStore.create(url) as store:
        store.record_study(dataclasses.replace(study, protocol=BEST))
        store.add_cells(cells)
        first = store.claim(owner, "cpu0", cell=CELL)
        early = evaluation(index=1, window=1, loss=1.5, target_tokens_read=10)
        lost = evaluation(index=2, window=2, loss=0.5, target_tokens_read=20)
        store.ingest(first, numbered(update(), early, checkpoint(1), update(window=2), lost))
        store.finish(first, ended(Reason.KILLED), max_resumes=3)
        second = store.claim(owner, "cpu0", cell=CELL)
        late = evaluation(index=2, window=2, loss=2.0, target_tokens_read=20)
        store.ingest(second, numbered(resumed(1, attempt=1), update(window=2), late))
        store.finish(second, ended(Reason.BUDGET_REACHED), max_resumes=3)

        assert store.trials(CELL)[0]["validation_loss"] == 1.5
