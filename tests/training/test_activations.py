"""Gradient checkpointing: the same numbers, with the layers run twice."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.activations import recompute_activations
from sweeper.training.adapter import adapt, unfreeze
from sweeper.training.determinism import seed_everything
from sweeper.training.options import LoraOptions


def lora_of(dropout):
    return LoraOptions(rank=4, targets=("q_proj", "v_proj", "down_proj"), dropout=dropout)


def trained(build, *, checkpointing, dropout, dtype=torch.float32, full=False):
    """Trains for three updates; attention drops out too."""
    model = build.tiny_llama(attention_dropout=dropout).to(dtype)
    adapted = unfreeze(model) if full else adapt(model, lora_of(dropout), seed=0)
    seed_everything(0)
    run = build.run(
        adapted.model,
        build.windows_of(build.random_examples(12), [4, 4, 4]),
        options=build.training_options(0.01, gradient_checkpointing=checkpointing),
    )
    return run, adapted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_an_adapter_is_trained_to_the_same_bits(dropout, dtype, build):
    plain, expected = trained(build, checkpointing=False, dropout=dropout, dtype=dtype)
    run, found = trained(build, checkpointing=True, dropout=dropout, dtype=dtype)
    assert run.losses == plain.losses
    assert [u.gradient_norm for u in run.updates] == [u.gradient_norm for u in plain.updates]
    assert all(torch.equal(found.tensors[name], p) for name, p in expected.tensors.items())


def test_full_tuning_gives_the_same_bits(build):
    plain, expected = trained(build, checkpointing=False, dropout=0.3, full=True)
    run, found = trained(build, checkpointing=True, dropout=0.3, full=True)
    assert run.losses == plain.losses
    assert all(torch.equal(found.tensors[name], p) for name, p in expected.tensors.items())


def test_dropout_does_change_the_losses_that_were_compared(build):
    dropped, _ = trained(build, checkpointing=True, dropout=0.3)
    plain, _ = trained(build, checkpointing=True, dropout=0.0)
    assert dropped.losses != plain.losses


@pytest.mark.parametrize(("checkpointing", "times"), [(False, 2), (True, 4)])
def test_each_layer_runs_once_more_for_each_of_two_micro_batches(checkpointing, times, build):
    adapted = adapt(build.tiny_llama(), lora_of(0.0), seed=0)
    windows = build.windows_of(build.random_examples(4), [4])
    runs = []
    layer = adapted.model.get_base_model().model.layers[0]
    layer.self_attn.register_forward_hook(lambda *_: runs.append(torch.is_grad_enabled()))
    build.run(
        adapted.model,
        windows,
        options=build.training_options(gradient_checkpointing=checkpointing),
    )
    assert sum(runs) == times


def test_every_adapter_is_reached_from_the_first_layer_on(build):
    """Public reports have adapters under checkpointing that were never trained."""
    run, adapted = trained(build, checkpointing=True, dropout=0.0)
    outer = [p for name, p in adapted.tensors.items() if "lora_B" in name]
    assert len(outer) == 6
    assert all(p.norm() > 0 for p in outer)
    assert run.notices == []


def test_an_architecture_that_cannot_is_refused(build):
    with pytest.raises(ModelError, match="does not support gradient checkpointing") as caught:
        recompute_activations(build.Bigram(torch.zeros(2, 2)))
    assert caught.value.faults[0].where == "training.gradient_checkpointing"
