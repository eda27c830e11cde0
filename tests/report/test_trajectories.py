"""A trial's held-out losses along the way, and the training time up to each."""

import pytest

from sweeper.report.trajectories import trajectory
from sweeper.selection.trajectory import EvaluationPoint


def evaluation(index, window, loss, split="validation"):
    return {
        "split": split,
        "grid_index": index,
        "window": window,
        "target_tokens_read": 10 * window,
        "loss": loss,
    }


def windows(*seconds):
    return [{"window": number, "seconds": each} for number, each in enumerate(seconds, start=1)]


def test_evaluations_are_points_in_order_with_the_retention_loss_beside():
    rows = [
        evaluation(1, 2, 1.75),
        evaluation(1, 2, 3.25, "retention"),
        evaluation(0, 0, 2.5),
        evaluation(0, 0, 3.0, "retention"),
        evaluation(2, 3, None),
    ]

    assert trajectory(rows, windows(0.5, 0.25, 1.0)) == (
        EvaluationPoint(target_tokens_read=0, training_seconds=0.0, loss=2.5, retention_loss=3.0),
        EvaluationPoint(
            target_tokens_read=20, training_seconds=0.75, loss=1.75, retention_loss=3.25
        ),
        EvaluationPoint(target_tokens_read=30, training_seconds=1.75, loss=None),
    )


@pytest.mark.parametrize("known", [[], windows(0.5), windows(0.5, 0.5, 0.5)[1:]])
def test_the_time_is_unknown_where_a_window_is_not_on_record(known):
    (found,) = trajectory([evaluation(1, 2, 1.75)], known)

    assert found.training_seconds is None
