"""What is asked about the trainable tensors."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from sweeper.errors import ModelError
from sweeper.training.options import ScheduleOptions, TrainingOptions
from sweeper.training.trainable import (
    Motion,
    check_dtype,
    clip_gradients,
    count,
    digest,
    gradient_norm,
    nonfinite,
    refuse_missing_gradients,
    trainable,
    with_zero_gradient,
)


def with_gradients(*gradients, dtype=torch.float64):
    tensors = {}
    for index, gradient in enumerate(gradients):
        values = torch.tensor(gradient, dtype=dtype)
        tensors[f"w{index}"] = nn.Parameter(torch.zeros_like(values))
        tensors[f"w{index}"].grad = values
    return tensors


def gradients_of(tensors):
    return [parameter.grad.tolist() for parameter in tensors.values()]


def test_a_gradient_above_the_threshold_is_scaled_to_it_and_the_norm_before_is_kept():
    tensors = with_gradients([3.0, 4.0])
    norm = gradient_norm(tensors)
    assert norm.item() == 5.0
    assert clip_gradients(tensors, norm, 2.0)
    assert gradients_of(tensors) == [
        pytest.approx([1.199999760000048, 1.599999680000064], rel=1e-14)
    ]


def test_the_norm_is_of_all_tensors_together():
    tensors = with_gradients([2.0, 3.0], [6.0])
    norm = gradient_norm(tensors)
    assert norm.item() == 7.0
    clip_gradients(tensors, norm, 3.5)
    assert gradients_of(tensors) == [
        pytest.approx([0.9999998571428774, 1.4999997857143161], rel=1e-14),
        pytest.approx([2.9999995714286323], rel=1e-14),
    ]


@pytest.mark.parametrize("clip_norm", [2.0, 0.5, None])
def test_a_gradient_below_the_threshold_is_left_alone(clip_norm):
    tensors = with_gradients([0.3, 0.4])
    assert not clip_gradients(tensors, gradient_norm(tensors), clip_norm)
    assert gradients_of(tensors) == [[0.3, 0.4]]


def test_finite_gradients_can_have_a_norm_that_is_not():
    """In float32 the squares overflow; in float64 the norm is the square root of two times one."""
    assert math.isinf(gradient_norm(with_gradients([3e38, 3e38], dtype=torch.float32)).item())
    norm = gradient_norm(with_gradients([3e38, 3e38])).item()
    assert norm == pytest.approx(math.sqrt(2) * 3e38, rel=1e-15)


@pytest.mark.parametrize(
    ("gradients", "norm"), [([[0.0, 0.0]], 0.0), ([], 0.0), ([[math.nan, 1.0]], math.nan)]
)
def test_norms_at_the_edges(gradients, norm):
    assert gradient_norm(with_gradients(*gradients)).item() == pytest.approx(norm, nan_ok=True)


def test_clipping_in_float32_ends_within_torchs_own_tolerance_of_the_threshold():
    """2/5 of (3, 4), by a divisor that is 1e-6 larger: within 3e-7 of (1.2, 1.6)."""
    tensors = with_gradients([3.0, 4.0], dtype=torch.float32)
    clip_gradients(tensors, gradient_norm(tensors), 2.0)
    assert gradients_of(tensors) == [pytest.approx([1.2, 1.6], rel=3e-7)]


@pytest.mark.parametrize(("gradients", "norm"), [([[3.0, 4.0]], 5.0), ([[0.0, 0.0]], 0.0), ([], 0)])
def test_a_threshold_that_is_never_reached_changes_nothing(gradients, norm):
    tensors = with_gradients(*gradients)
    found = gradient_norm(tensors)
    assert found.item() == norm
    assert not clip_gradients(tensors, found, math.inf)
    assert gradients_of(tensors) == gradients


@pytest.mark.parametrize(
    ("gradient", "dtype"),
    [
        ([3e38, 3e38], torch.float32),
        ([math.inf, 1.0], torch.float64),
        ([math.nan, 1.0], torch.float64),
    ],
)
def test_gradients_are_never_clipped_by_a_norm_that_is_not_finite(gradient, dtype):
    """torch would make (0, 0) of the first, which is finite, and NaN of what was sound."""
    tensors = with_gradients(gradient, dtype=dtype)
    before = tensors["w0"].grad.clone()
    with pytest.raises(AssertionError, match="not finite"):
        clip_gradients(tensors, gradient_norm(tensors), 2.0)
    assert torch.equal(tensors["w0"].grad.nan_to_num(), before.nan_to_num())


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.inf, math.nan])
def test_a_threshold_is_a_number_above_zero_or_left_out(clip_norm):
    schedule = ScheduleOptions(kind="constant")
    with pytest.raises(ValidationError, match="clip_norm"):
        TrainingOptions(schedule=schedule, records_per_update=1, clip_norm=clip_norm)


def test_a_model_without_trainable_parameters_is_refused():
    model = nn.Linear(2, 2).requires_grad_(requires_grad=False)
    with pytest.raises(ModelError, match="no trainable parameter"):
        trainable(model)


def test_two_trainable_parameters_over_one_storage_are_refused_by_name():
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False))
    model[1].weight = nn.Parameter(model[0].weight.data.T)
    with pytest.raises(ModelError, match=r"0\.weight = 1\.weight"):
        trainable(model)


def test_one_parameter_under_two_names_is_trained_once():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    assert count(trainable(model)) == 4


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [(torch.bfloat16, "bfloat16"), (torch.float64, "float32"), (torch.float32, "float64")],
)
def test_trainable_tensors_of_another_dtype_are_refused(dtype, precision):
    with pytest.raises(ModelError, match="small updates would be lost"):
        check_dtype({"w": nn.Parameter(torch.zeros(1, dtype=dtype))}, precision)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_float32_is_what_is_trained_under_a_short_autocast(precision):
    check_dtype({"w": nn.Parameter(torch.zeros(1))}, precision)


@pytest.mark.parametrize(("change", "left"), [(-1e-3, 1.0), (-4e-3, 0.99609375), (2.0**-8, 1.0)])
def test_a_small_update_of_a_bfloat16_weight_is_lost_so_none_is_trained(change, left):
    """Below 1 its steps are 2**-8 = 0.00390625, above 1 twice that; ties go to the even one."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    with torch.no_grad():
        weight.add_(change)
    assert weight.item() == left
    with pytest.raises(ModelError, match="small updates would be lost"):
        check_dtype({"w": weight}, "bfloat16")


def test_the_digest_sees_every_bit_and_every_name():
    tensors = {"w": nn.Parameter(torch.tensor([0.0, 1.0]))}
    moved = {"w": nn.Parameter(torch.tensor([-0.0, 1.0]))}
    renamed = {"v": tensors["w"]}
    reshaped = {"w": nn.Parameter(torch.tensor([[0.0, 1.0]]))}
    assert len({digest(each) for each in (tensors, moved, renamed, reshaped)}) == 4
    assert digest(tensors) == digest({"w": nn.Parameter(torch.tensor([0.0, 1.0]))})


def test_tensors_with_nonfinite_values_are_named():
    tensors = {
        "fine": nn.Parameter(torch.ones(2)),
        "nan": nn.Parameter(torch.tensor([1.0, math.nan])),
        "inf": nn.Parameter(torch.tensor([math.inf])),
    }
    assert nonfinite(tensors) == ("nan", "inf")


def test_tensors_that_got_no_gradient_are_refused_by_name():
    tensors = with_gradients([1.0]) | {"forgotten": nn.Parameter(torch.ones(1))}
    with pytest.raises(ModelError, match="forgotten"):
        refuse_missing_gradients(tensors)


def test_a_gradient_of_exactly_zero_is_found_in_the_part_asked_for():
    zero, some = with_gradients([0.0, 0.0], [0.0, 1e-300]).values()
    tensors = {"a.lora_B": zero, "b.lora_B": some, "a.lora_A": zero}
    assert with_zero_gradient(tensors, part="lora_B") == ("a.lora_B",)


class TestMotion:
    def make(self):
        tensors = {"a": nn.Parameter(torch.ones(3)), "b": nn.Parameter(torch.zeros(2))}
        return tensors, Motion(tensors)

    def test_nothing_has_moved_at_first(self):
        _, motion = self.make()
        assert not motion.happened()

    def test_one_bit_of_the_last_tensor_is_a_motion_once(self):
        tensors, motion = self.make()
        with torch.no_grad():
            tensors["b"][1] = -0.0
        assert motion.happened()
        assert not motion.happened()

    def test_moving_back_is_a_motion_too(self):
        tensors, motion = self.make()
        with torch.no_grad():
            tensors["a"][0] = 2.0
            first = motion.happened()
            tensors["a"][0] = 1.0
        assert first
        assert motion.happened()

    def test_a_weight_that_stays_nan_has_not_moved(self):
        tensors, motion = self.make()
        with torch.no_grad():
            tensors["a"][0] = math.nan
        assert motion.happened()
        assert not motion.happened()
