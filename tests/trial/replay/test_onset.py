"""Where what ended a trial began."""

from __future__ import annotations

import math

import pytest

from sweeper.trial.replay.onset import onset


@pytest.mark.parametrize("reason", ["nonfinite_loss", "nonfinite_gradient"])
def test_a_row_of_nonfinite_windows_begins_with_its_first_one(made, reason):
    """Window 2 was skipped for the same reason, but window 3 ran and ended that row."""
    windows = [
        made.update(1),
        made.skipped(2, reason),
        made.update(3),
        made.skipped(4, reason),
        made.skipped(5, reason),
    ]

    assert onset(made.recorded(windows, reason=reason)) == 4


def test_a_row_without_updates_begins_with_its_first_window_whatever_each_skip_was(made):
    windows = [made.update(1), made.skipped(2, "no_targets"), made.skipped(3, "scaler_overflow")]

    assert onset(made.recorded(windows, reason="no_updates")) == 2


def test_stalled_updates_begin_so_many_updates_ago_and_skips_are_none(made):
    """Three stalled updates fire: those of windows 2, 4 and 5."""
    windows = [
        made.update(1),
        made.update(2),
        made.skipped(3, "no_targets"),
        made.update(4),
        made.update(5),
    ]

    assert onset(made.recorded(windows, reason="stalled_updates")) == 2


def test_a_divergence_begins_after_the_last_evaluation_that_was_near_the_initial_one(made):
    """The initial loss is 5 and the limit 1 nat above: 6.0 at window 4 is not above it, 6.1 is."""
    evaluations = [
        made.evaluation(0, 0, 5.0),
        made.evaluation(1, 2, 4.0),
        made.evaluation(2, 4, 6.0),
        made.evaluation(3, 6, 6.1),
        made.evaluation(4, 8, 9.0),
        made.evaluation(3, 6, 1.0, split="retention"),
    ]
    windows = [made.update(window) for window in range(1, 9)]

    assert onset(made.recorded(windows, evaluations, reason="diverged")) == 5


def test_a_divergence_from_the_start_begins_with_the_first_window(made):
    evaluations = [made.evaluation(0, 0, 5.0), made.evaluation(1, 2, 8.0)]

    run = made.recorded([made.update(1), made.update(2)], evaluations, reason="diverged")

    assert onset(run) == 1


def test_weights_that_are_not_finite_became_so_after_the_last_evaluation(made):
    """They are looked at before a split is scored, so the evaluation of window 6 is missing."""
    evaluations = [made.evaluation(0, 0, 5.0), made.evaluation(1, 3, 4.0)]
    windows = [made.update(window) for window in range(1, 7)]

    assert onset(made.recorded(windows, evaluations, reason="nonfinite_parameter")) == 4


def test_a_nonfinite_evaluation_begins_after_the_last_finite_one(made):
    evaluations = [
        made.evaluation(0, 0, 5.0),
        made.evaluation(1, 3, 4.0),
        made.evaluation(2, 6, math.nan),
    ]
    windows = [made.update(window) for window in range(1, 7)]

    assert onset(made.recorded(windows, evaluations, reason="nonfinite_loss")) == 4


def test_the_evaluation_that_ended_it_is_none_that_found_nothing(made):
    """In window 6 the validation loss was finite still, and the retention loss was not."""
    evaluations = [
        made.evaluation(1, 3, 4.0),
        made.evaluation(2, 6, 4.0),
        made.evaluation(2, 6, math.nan, split="retention"),
    ]
    windows = [made.update(window) for window in range(1, 7)]

    assert onset(made.recorded(windows, evaluations, reason="nonfinite_loss")) == 4


def test_without_an_evaluation_on_record_it_may_have_begun_anywhere(made):
    windows = [made.update(window) for window in range(1, 7)]

    assert onset(made.recorded(windows, reason="nonfinite_parameter")) == 1


@pytest.mark.parametrize("reason", [None, "code_error"])
def test_what_ended_otherwise_is_looked_at_in_its_last_window(made, reason):
    windows = [made.update(1), made.update(2)]

    assert onset(made.recorded(windows, reason=reason)) == 2
