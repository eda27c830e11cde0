"""The nominal points at which evaluations are made."""

import pytest

from sweeper.training.exposure import Planned
from sweeper.training.grid import Grid
from sweeper.training.options import EvaluationGrid, EvaluationOptions


@pytest.mark.parametrize(
    ("before", "read", "index"),
    [
        (0, 99, None),
        (99, 100, 1),
        (100, 199, None),
        (150, 210, 2),
        (90, 310, 3),
        (390, 400, 4),
    ],
)
def test_an_evaluation_is_due_at_the_first_window_that_reaches_a_multiple(before, read, index):
    grid = Grid(spacing=100, budget=1000)
    assert grid.due(read_before=before, read=read) == index


def test_the_window_that_meets_the_budget_has_none_of_its_own_since_the_end_has_one():
    assert Grid(spacing=100, budget=1000).due(read_before=950, read=1000) is None


def test_without_spacing_none_is_due_between_start_and_end():
    assert Grid(spacing=None, budget=1000).due(read_before=0, read=999) is None


@pytest.mark.parametrize(
    ("spacing", "last"), [(100, 10), (300, 4), (1000, 1), (5000, 1), (None, 1)]
)
def test_the_last_index_is_the_number_of_spacings_in_the_budget_rounded_up(spacing, last):
    assert Grid(spacing=spacing, budget=1000).last == last


def test_the_grid_comes_from_the_study_and_the_plan():
    options = EvaluationOptions(every=EvaluationGrid(target_tokens=50))
    planned = Planned(
        windows=3,
        records=12,
        input_tokens=150,
        target_tokens=120,
        last_window_target_tokens=20,
    )
    assert Grid.of(options, planned) == Grid(spacing=50, budget=120)


@pytest.mark.parametrize(
    ("spacing", "targets", "evaluations"),
    [
        (5, [4, 4, 4, 3], 4),  # at 0, 8, 12 and 15
        (5, [3, 2, 5, 5], 4),  # at 0, 5, 10 and 15
        (15, [10, 5, 1], 3),  # at 0, 15 and 16
        (15, [10, 6], 2),  # the window that reaches 15 is the last one
        (1, [20], 2),
        (None, [4, 4], 2),
    ],
)
def test_evaluations_are_counted_as_they_are_made(spacing, targets, evaluations):
    assert Grid(spacing=spacing, budget=sum(targets)).evaluations(targets) == evaluations
