"""The losses along the way: which is the last, which the lowest, and which is at a target."""

from __future__ import annotations

import math

import pytest

from sweeper.selection.trajectory import EvaluationPoint, final_loss, lowest_loss


def points(*losses):
    return tuple(
        EvaluationPoint(target_tokens_read=place, training_seconds=None, loss=loss)
        for place, loss in enumerate(losses)
    )


@pytest.mark.parametrize(
    ("losses", "last", "lowest"),
    [
        ([], None, None),
        ([1.5], 1.5, None),
        ([1.0, 1.7, 1.6, 1.65], 1.65, 1.6),
        ([2.0, math.nan, 1.6, 1.7], 1.7, 1.6),
        ([2.0, 1.6, math.nan], None, 1.6),
        ([2.0, 1.6, math.inf], None, 1.6),
        ([2.0, None, -math.inf, None], None, None),
    ],
)
def test_a_loss_that_is_no_number_is_neither_the_last_nor_the_lowest(losses, last, lowest):
    assert (final_loss(points(*losses)), lowest_loss(points(*losses))) == (last, lowest)


@pytest.mark.parametrize(
    ("loss", "is_there"),
    [(1.62, True), (1.61, True), (1.63, False), (None, False), (math.nan, False)],
)
def test_an_equal_loss_is_at_the_target(loss, is_there):
    assert points(loss)[0].has_reached(1.62) is is_there
