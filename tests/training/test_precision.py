"""What `auto` means, and what is refused."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.options import ModelOptions
from sweeper.training.precision import resolve_precision, settle

CPU = torch.device("cpu")


def settled(build, *, dtype="auto", precision="auto", tune="lora"):
    model, training = settle(
        ModelOptions(path="/m", dtype=dtype),
        build.training_options(precision=precision),
        tune=tune,
        device=CPU,
    )
    return model.dtype, training.precision


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ("float32", "float32")),
        ({"tune": "full"}, ("float32", "float32")),
        ({"precision": "bfloat16"}, ("float32", "bfloat16")),
        ({"precision": "bfloat16", "tune": "full"}, ("float32", "bfloat16")),
        ({"dtype": "bfloat16"}, ("bfloat16", "bfloat16")),
        ({"dtype": "float32", "precision": "float32"}, ("float32", "float32")),
    ],
)
def test_auto_on_a_cpu_is_float32_and_follows_the_weights(asked, found, build):
    assert settled(build, **asked) == found


@pytest.mark.parametrize(
    "asked",
    [
        {"dtype": "bfloat16", "tune": "full"},
        {"dtype": "bfloat16", "precision": "float32"},
        {"precision": "float16"},
        {"precision": "float64"},
    ],
)
def test_combinations_that_lose_updates_or_mean_nothing_are_refused(asked, build):
    with pytest.raises(ModelError, match="this combination of dtype and precision is refused"):
        settled(build, **asked)


@pytest.mark.parametrize(
    ("dtype", "asked", "found"),
    [
        (torch.float32, "auto", "float32"),
        (torch.float64, "auto", "float64"),
        (torch.bfloat16, "auto", "bfloat16"),
        (torch.float32, "bfloat16", "bfloat16"),
    ],
)
def test_a_loaded_model_trains_in_its_own_dtype_unless_told_otherwise(dtype, asked, found):
    assert resolve_precision(asked, torch.nn.Linear(2, 2).to(dtype)) == found


@pytest.mark.parametrize(
    ("dtype", "asked"),
    [
        (torch.float64, "float32"),
        (torch.float32, "float64"),
        (torch.bfloat16, "float32"),
        (torch.bfloat16, "float64"),
        (torch.float64, "bfloat16"),
    ],
)
def test_a_loaded_model_that_does_not_fit_the_precision_is_refused(dtype, asked):
    with pytest.raises(ModelError, match="refused"):
        resolve_precision(asked, torch.nn.Linear(2, 2).to(dtype))


def test_frozen_weights_decide_where_there_are_some():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2).bfloat16(), torch.nn.Linear(2, 2))
    model[0].requires_grad_(requires_grad=False)
    assert resolve_precision("auto", model) == "bfloat16"


def test_a_few_float32_tensors_in_a_frozen_bfloat16_model_do_not_change_its_precision():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2).bfloat16(), torch.nn.LayerNorm(2))
    model.requires_grad_(requires_grad=False)
    assert resolve_precision("auto", model) == "bfloat16"


def test_weights_in_float16_are_refused():
    with pytest.raises(ModelError, match="float16"):
        resolve_precision("auto", torch.nn.Linear(2, 2).half())
