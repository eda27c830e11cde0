"""Updates of one weight, worked by hand."""

import pytest
import torch
from torch import nn

from sweeper.training.optimizer import make_optimizer, set_rate
from sweeper.training.options import AdamWOptions, SgdOptions


def weight(*values, dtype=torch.float64):
    return nn.Parameter(torch.tensor([list(values)], dtype=dtype))


def step(optimizer, parameter, gradient, rate):
    set_rate(optimizer, rate)
    parameter.grad = torch.tensor([list(gradient)], dtype=parameter.dtype)
    optimizer.step()
    return parameter.detach()[0].tolist()


def adamw(parameter, **options):
    return make_optimizer({"w": parameter}, AdamWOptions(kind="adamw", **options))


def sgd(parameter, **options):
    return make_optimizer({"w": parameter}, SgdOptions(kind="sgd", **options))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.5, [1, 0.5, 0.25]), (2.5, [-3, 4.5, -6.75]), (1.0, [0, 0, 0]), (2.0, [-2, 2, -2])],
)
def test_descent_on_half_x_squared_from_two(rate, expected):
    x = weight(2.0)
    optimizer = sgd(x)
    found = [step(optimizer, x, x.detach()[0].tolist(), rate)[0] for _ in range(3)]
    assert found == expected


def test_momentum_of_nine_tenths():
    x = weight(2.0)
    optimizer = sgd(x, momentum=0.9)
    found = [step(optimizer, x, x.detach()[0].tolist(), 0.1)[0] for _ in range(3)]
    assert found == pytest.approx([1.8, 1.44, 0.972], rel=1e-12)


def test_the_first_update_of_adamw_has_the_size_of_the_rate():
    x = weight(1.0, -2.0, 0.5)
    found = step(adamw(x), x, (0.001, -10.0, 0.0), 0.1)
    assert found == pytest.approx([0.90000099999, -1.9000000001, 0.5], abs=1e-12)


def test_the_same_in_float32():
    x = weight(1.0, -2.0, 0.5, dtype=torch.float32)
    found = step(adamw(x), x, (0.001, -10.0, 0.0), 0.1)
    assert found == pytest.approx([0.9000009894371033, -1.899999976158142, 0.5], abs=1e-7)


def test_eps_halves_an_update_whose_gradient_is_as_small_as_eps():
    x = weight(1.0)
    assert step(adamw(x), x, (1e-8,), 0.1) == pytest.approx([0.95], rel=1e-12)


def test_decay_is_apart_from_the_gradient():
    """With L2 in the gradient the third weight would move by a whole rate, to 0.4."""
    x = weight(1.0, -2.0, 0.5)
    found = step(adamw(x, weight_decay=0.01), x, (1.0, -1.0, 0.0), 0.1)
    assert found == pytest.approx([0.899000001, -1.898000001, 0.4995], abs=1e-9)


def test_bias_correction_over_three_updates():
    """Second: 1 + (.09/.19) / sqrt(.000999/.001999); third: the same with .9 and .999 once more."""
    x = weight(0.0)
    optimizer = adamw(x, eps=0.0)
    found = [step(optimizer, x, (gradient,), 1.0)[0] for gradient in (1.0, 0.0, 0.0)]
    assert found == pytest.approx([-1, -1.67005825413654, -2.18801522662182645], rel=1e-12)


def test_a_change_of_sign_in_the_gradient():
    x = weight(0.0)
    optimizer = adamw(x)
    found = [step(optimizer, x, (gradient,), 0.01)[0] for gradient in (1.0, -1.0)]
    assert found == pytest.approx([-0.0099999999, -0.00947368411579], rel=1e-9)


def test_an_update_with_a_zero_gradient_still_decays_so_a_skipped_window_must_not_step():
    x = weight(1.0)
    assert step(adamw(x, weight_decay=0.1), x, (0.0,), 0.1) == pytest.approx([0.99], rel=1e-12)


def test_a_weight_without_a_gradient_is_left_alone_decay_included():
    x = weight(1.0)
    optimizer = adamw(x, weight_decay=0.1)
    set_rate(optimizer, 0.1)
    optimizer.step()
    assert x.item() == 1.0


@pytest.mark.parametrize(
    "options",
    [AdamWOptions(kind="adamw", weight_decay=0.5), SgdOptions(kind="sgd", weight_decay=0.5)],
)
def test_decay_acts_on_matrices_only(options):
    matrix, bias = nn.Parameter(torch.ones(1, 1)), nn.Parameter(torch.ones(1))
    optimizer = make_optimizer({"matrix": matrix, "bias": bias}, options)
    set_rate(optimizer, 0.1)
    matrix.grad, bias.grad = torch.zeros(1, 1), torch.zeros(1)
    optimizer.step()
    assert matrix.item() == pytest.approx(0.95)
    assert bias.item() == 1.0


def test_the_rate_that_is_reported_is_the_one_every_group_holds():
    tensors = {"matrix": nn.Parameter(torch.ones(1, 1)), "bias": nn.Parameter(torch.ones(1))}
    optimizer = make_optimizer(tensors, AdamWOptions(kind="adamw"))
    assert set_rate(optimizer, 0.125) == 0.125
    assert [group["lr"] for group in optimizer.param_groups] == [0.125, 0.125]
