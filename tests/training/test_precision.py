"""What `auto` means, and what is refused."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt
from sweeper.training.options import LoraOptions, ModelOptions
from sweeper.training.precision import autocast, resolve_precision, settle

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
        {"precision": "float16", "dtype": "bfloat16"},
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
        (torch.float32, "float16", "float16"),
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
        (torch.bfloat16, "float16"),
        (torch.float64, "float16"),
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


@pytest.mark.parametrize(
    ("precision", "product"),
    [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)],
)
def test_products_are_computed_in_the_precision_and_weights_stay_float32(precision, product):
    layer = torch.nn.Linear(2, 2)
    with autocast(precision, CPU):
        assert layer(torch.ones(1, 2)).dtype == product
    assert layer.weight.dtype == torch.float32


def test_what_is_too_small_for_float16_is_not_once_it_is_scaled():
    """The smallest number is 2**-24, the largest 65504; 65536 x 1e-8 = 6.55e-4 has its place."""
    half = torch.tensor([1e-8, 1e-8 * 65536, 65504.0, 70000.0, 2.0**-24]).half().tolist()
    assert half == [0.0, 0.0006551742553710938, 65504.0, float("inf"), 5.960464477539063e-08]


def fault_of(build, *, model=(), training=(), tune="lora"):
    with pytest.raises(ModelError) as caught:
        settle(
            ModelOptions(path="/m", **dict(model)),
            build.training_options(**dict(training)),
            tune=tune,
            device=CPU,
        )
    (fault,) = caught.value.faults
    return fault


def test_float16_is_refused_on_a_cpu_with_the_reason(build):
    fault = fault_of(build, training={"precision": "float16"})
    assert fault.where == "training.precision"
    assert fault.what.startswith("float16 is for GPUs")


def test_tf32_is_refused_where_there_is_none(build):
    fault = fault_of(build, training={"tf32": True})
    assert (fault.where, fault.got) == ("training.tf32", "true on cpu")


def test_quantized_weights_are_not_tuned_in_full(build):
    fault = fault_of(build, model={"quantization": "nf4"}, tune="full")
    assert fault.what == "quantized weights cannot be trained, only an adapter over them"


def test_flash_attention_does_not_go_with_float32(build):
    fault = fault_of(build, model={"attention": "flash_attention_2"})
    assert fault.what == "flash attention computes in sixteen bits only"
    assert fault.got == "flash_attention_2 with precision float32"


def test_several_settings_that_do_not_go_come_in_one_answer(build):
    with pytest.raises(ModelError) as caught:
        settle(
            ModelOptions(path="/m", quantization="nf4"),
            build.training_options(tf32=True, precision="float16"),
            tune="full",
            device=CPU,
        )
    assert [fault.where for fault in caught.value.faults] == [
        "model.quantization",
        "training.precision",
        "training.tf32",
    ]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_a_short_precision_trains_close_to_float32(precision, attention, build):
    """Losses of ln 64 = 4.16 from products with 11 and 8 bits; float16 with the scale 2**16."""
    windows = build.windows_of(build.random_examples(12), [4, 4, 4])

    def trained(precision):
        model = build.tiny_llama()
        model.set_attn_implementation(attention)
        adapted = adapt(model, LoraOptions(rank=4, targets=("q_proj", "v_proj")), seed=0)
        options = build.training_options(0.01, precision=precision)
        return build.run(adapted.model, windows, options=options)

    found, exact = trained(precision), trained("float32")
    assert found.losses == pytest.approx(exact.losses, abs=0.02)
    assert found.losses != exact.losses
    scale = 65536.0 if precision == "float16" else None
    assert [update.loss_scale for update in found.updates] == [scale] * 3
    assert [update.ran for update in found.updates] == [True] * 3
