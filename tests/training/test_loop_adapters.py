"""Adapters and full tuning in the loop: what is audited, noticed, refused."""

import math

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.records import Reason
from sweeper.training.adapter import adapt
from sweeper.training.options import (
    LoraOptions,
    SgdOptions,
)
from sweeper.training.stopping import Nonfinite, NoUpdates, Stalled, StopOptions

SGD = SgdOptions(kind="sgd")
PATIENT = StopOptions(
    nonfinite=Nonfinite(loss=99, gradient=99),
    no_updates=NoUpdates(windows=99),
    stalled=Stalled(updates=99),
)


def lora_run(build, model, examples, sizes, **options):
    adapted = adapt(model, LoraOptions(rank=4, targets=("q_proj", "v_proj")), seed=0)
    windows = build.windows_of(examples, sizes)
    run = build.run(adapted.model, windows, options=build.training_options(0.01, **options))
    return run, adapted


def test_after_one_update_every_b_has_left_zero(build):
    run, adapted = lora_run(build, build.tiny_llama(), build.random_examples(4), [4])
    outer = {name: p for name, p in adapted.tensors.items() if "lora_B" in name}
    assert all(parameter.abs().sum() > 0 for parameter in outer.values())
    assert run.notices == []


def test_a_zero_gradient_of_a_at_update_1_is_right_and_no_notice_is_given(build):
    """B is zero at first, so nothing reaches A; from update 2 on something does."""
    model = build.tiny_llama()
    run, adapted = lora_run(build, model, build.random_examples(4), [4])
    inner = {name: p.clone() for name, p in adapted.tensors.items() if "lora_A" in name}
    start = adapt(build.tiny_llama(), LoraOptions(rank=4, targets=("q_proj", "v_proj")), seed=0)
    assert all(torch.equal(inner[name], start.tensors[name]) for name in inner)
    assert run.notices == []


def test_an_adapter_that_nothing_reaches_is_told_of_by_name(build):
    """Attention's output in layer 0 is multiplied by zero, so no gradient comes back to it."""
    model = build.tiny_llama()
    torch.nn.init.zeros_(model.model.layers[0].self_attn.o_proj.weight)
    run, _ = lora_run(build, model, build.random_examples(8), [4, 4])
    first, second = run.notices
    assert first.startswith("at update 1 these had a gradient of exactly zero: ")
    assert "layers.0.self_attn.q_proj.lora_B" in first
    assert "layers.1" not in first
    assert second.startswith("at update 2 ")
    assert "layers.0.self_attn.v_proj.lora_A" in second


def test_a_trainable_tensor_without_gradient_is_refused_at_update_1(build):
    model = build.Bigram(torch.zeros(2, 2))
    model.forgotten = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ModelError, match=r"got no gradient at update 1.*forgotten"):
        build.run(model, build.windows_of([build.costing(0)], [1]))


def test_a_model_with_nothing_to_train_is_refused_before_anything_is_read(build):
    model = build.tiny_llama().requires_grad_(requires_grad=False)
    with pytest.raises(ModelError, match="no trainable parameter"):
        build.run(model, build.windows_of([build.costing(0)], [1]))


def test_an_adapter_on_bfloat16_weights_trains_under_autocast(build):
    run, _ = lora_run(build, build.tiny_llama().bfloat16(), build.random_examples(8), [4, 4])
    assert run.outcome.reason is Reason.BUDGET_REACHED
    assert run.losses == pytest.approx([math.log(64)] * 2, rel=0.1)


def test_full_tuning_under_bfloat16_autocast_keeps_float32_weights(build):
    model = build.tiny_llama()
    windows = build.windows_of(build.random_examples(8), [4, 4])
    options = build.training_options(1e-3, precision="bfloat16")
    run = build.run(model, windows, options=options)
    assert run.outcome.reason is Reason.BUDGET_REACHED
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_full_tuning_of_bfloat16_weights_is_refused(build):
    with pytest.raises(ModelError, match="small updates would be lost"):
        build.run(build.tiny_llama().bfloat16(), build.windows_of([build.costing(0)], [1]))
