"""The best weights: the lowest finite validation loss after training began, the first of equals."""

import math

import pytest
import torch
from torch import nn

from sweeper.records import Evaluation
from sweeper.training.best import Best

EVALUATION = dict.fromkeys(Evaluation.__dataclass_fields__, 0)


def evaluated(loss, index, split="validation"):
    return Evaluation(**EVALUATION | {"split": split, "index": index, "loss": loss})


def after(losses, *, first_index=1):
    """Returns what was kept; the only weight is the index of the evaluation."""
    best, weight = Best(), nn.Parameter(torch.zeros(1))
    for index, loss in enumerate(losses, start=first_index):
        weight.data.fill_(index)
        best.consider(evaluated(loss, index), {"weight": weight})
    return best


@pytest.mark.parametrize(
    ("losses", "index", "loss"),
    [
        ([3.0, 2.0, 4.0], 2, 2.0),  # transformers PR #31142 kept the largest
        ([math.nan, 2.0, 3.0], 2, 2.0),  # ray PR #23820 let NaN win the sort
        ([2.0, math.nan, 3.0], 1, 2.0),
        ([math.inf, 5.0, -math.inf], 2, 5.0),
        ([3.0, 2.0, 2.0], 2, 2.0),
    ],
)
def test_the_lowest_finite_loss_is_kept_and_of_equals_the_first(losses, index, loss):
    best = after(losses)
    assert (best.index, best.loss) == (index, loss)
    assert best.weights["weight"].tolist() == [index]


def test_without_a_finite_loss_nothing_is_kept():
    best = after([math.nan, math.inf])
    assert (best.loss, best.index, best.weights) == (None, None, {})


def test_the_evaluation_before_the_first_update_is_no_candidate():
    best = after([1.0, 3.0], first_index=0)
    assert (best.index, best.loss) == (1, 3.0)


def test_only_the_validation_split_is_looked_at():
    best = Best()
    best.consider(evaluated(1.0, 1, split="retention"), {"weight": nn.Parameter(torch.zeros(1))})
    assert best.loss is None


def test_what_is_kept_does_not_move_with_the_weights():
    best, weight = Best(), nn.Parameter(torch.ones(2))
    best.consider(evaluated(1.0, 1), {"weight": weight})
    weight.data.zero_()
    assert best.weights["weight"].tolist() == [1.0, 1.0]


def test_the_best_weights_are_in_place_for_a_while_and_the_last_come_back_to_the_bit():
    best, weight = after([1.0]), nn.Parameter(torch.tensor([0.1]))
    with best.in_place({"weight": weight}):
        assert weight.tolist() == [1.0]
    assert torch.equal(weight, torch.tensor([0.1]))


def test_the_last_weights_come_back_though_saving_failed():
    best, weight = after([1.0]), nn.Parameter(torch.tensor([0.1]))
    with pytest.raises(OSError, match="full"), best.in_place({"weight": weight}):
        raise OSError("full")
    assert torch.equal(weight, torch.tensor([0.1]))
