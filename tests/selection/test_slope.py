"""How much the loss still changed at the end of training."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.slope import final_slope
from sweeper.selection.trajectory import EvaluationPoint


def points(*pairs):
    return tuple(
        EvaluationPoint(target_tokens_read=read, training_seconds=None, loss=loss)
        for read, loss in pairs
    )


START = (0, 2.1)


def slope(make_study, *trajectories, entries=None):
    entries = entries or [1.6] * len(trajectories)
    study = make_study({"baseline": entries})
    cells = tuple(
        dataclasses.replace(cell, evaluations=points(*trajectories[cell.seed]))
        for cell in study.cells
    )
    return final_slope(dataclasses.replace(study, cells=cells), "baseline")


def test_the_last_tenth_is_measured_exactly_where_an_evaluation_is_at_90_percent(make_study):
    found = slope(make_study, [START, (800, 1.75), (900, 1.625), (950, 1.61), (1000, 1.5)])

    assert (found.n, found.share, found.drop) == (1, 0.1, 0.125)
    assert found.sentence == (
        "The validation loss of baseline fell by 0.125 nats over the last 10 % of its target "
        "tokens (1 seed): it had not levelled off, and at another budget the verdict may differ."
    )


def test_a_coarser_grid_says_how_much_it_covers(make_study):
    found = slope(make_study, [START, (500, 1.625), (750, 1.504), (1000, 1.5)])

    assert found.sentence == (
        "The validation loss of baseline fell by 0.004 nats over the last 25 % of its target "
        "tokens (1 seed)."
    )


def test_the_mean_is_taken_over_completed_seeds(make_study):
    """Drops of 0.125 over 10 % and of -0.375 over 20 %."""
    trials = [[START, (900, 1.625), (1000, 1.5)], [START, (800, 1.5), (1000, 1.875)]]
    stopped = [START, (900, 1.5), (1000, 9.0)]
    found = slope(make_study, *trials, stopped, entries=[1.5, 1.875, Reason.DIVERGED])

    assert (found.n, found.share, found.drop) == (2, 0.2, -0.125)
    assert found.sentence.startswith(
        "The validation loss of baseline rose by 0.125 nats over the last 20 %"
    )


@pytest.mark.parametrize(
    "trajectory",
    [
        [],
        [START],
        [START, (1000, 1.5)],
        [START, (950, 1.51), (1000, 1.5)],
        [START, (900, None), (1000, 1.5)],
        [START, (900, 1.6), (1000, None)],
    ],
    ids=["none", "start", "start and end", "none before the last tenth", "not finite", "no end"],
)
def test_without_a_loss_before_the_last_tenth_and_at_the_end_there_is_none(make_study, trajectory):
    assert slope(make_study, trajectory) is None


def test_one_trial_without_it_leaves_the_arm_without(make_study):
    assert slope(make_study, [START, (900, 1.625), (1000, 1.5)], [START, (1000, 1.5)]) is None
