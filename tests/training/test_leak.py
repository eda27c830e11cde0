"""Packed documents that see each other are found before the first update."""

import dataclasses
import random

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    OPTConfig,
    OPTForCausalLM,
)

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt
from sweeper.training.leak import refuse_leak, refuse_unpackable
from sweeper.training.loss import Objective
from sweeper.training.options import LoraOptions


def fault_of(caught):
    (fault,) = caught.value.faults
    return fault


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=64,
            n_embd=32,
            n_layer=2,
            n_head=2,
            n_positions=64,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def opt():
    return OPTForCausalLM(
        OPTConfig(
            vocab_size=64,
            hidden_size=32,
            word_embed_proj_dim=32,
            ffn_dim=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
        )
    )


def bloom():
    return BloomForCausalLM(BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=2))


def leak(model, **arguments):
    """The largest change of the logits of 5 tokens when the 6 before them change."""
    positions = torch.cat([torch.arange(6), torch.arange(5)])[None]
    one = torch.arange(11)[None]
    other = torch.cat([one[:, :6] + 32, one[:, 6:]], dim=1)
    if arguments.pop("positions"):
        arguments["position_ids"] = positions
    with torch.no_grad():
        logits = [model(input_ids=ids, **arguments).logits[0, 6:] for ids in (one, other)]
    return (logits[0] - logits[1]).abs().max().item()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_positions_without_mask_and_cache_keep_documents_apart_exactly(build, attention):
    model = build.tiny_llama().eval()
    model.set_attn_implementation(attention)
    assert leak(model, positions=True, use_cache=False) == 0.0


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"positions": False, "use_cache": False},
        {"positions": True},
        {
            "positions": True,
            "use_cache": False,
            "attention_mask": torch.ones(1, 11, dtype=torch.int64),
        },
    ],
    ids=["no positions", "default cache", "mask of ones"],
)
def test_each_wrong_input_lets_documents_see_each_other(build, attention, arguments):
    """huggingface/trl #1230, #805, huggingface/transformers PR #46634. Should one of these become
    0.0 with a later transformers, the inputs may be simplified; none of them raises."""
    model = build.tiny_llama().eval()
    model.set_attn_implementation(attention)
    assert leak(model, **arguments) > 0.05


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_that_keeps_documents_apart_passes(build, attention, precision):
    model = build.tiny_llama()
    model.set_attn_implementation(attention)
    refuse_leak(Objective(model, precision))


def test_a_model_in_float64_passes(build):
    refuse_leak(Objective(build.tiny_llama().double(), "float64"))


def test_a_model_with_absolute_positions_passes_since_they_begin_anew():
    refuse_leak(Objective(gpt2(), "float32"))


def test_a_model_inside_an_adapter_passes_and_is_looked_at_inside(build):
    refuse_leak(Objective(adapt(build.tiny_llama(), LoraOptions(rank=2), seed=0).model, "float32"))
    with pytest.raises(ModelError, match="see each other"):
        refuse_leak(Objective(adapt(opt(), LoraOptions(rank=2), seed=0).model, "float32"))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_model_that_takes_positions_but_not_for_its_mask_is_refused(attention):
    """OPT uses position_ids for its embeddings alone."""
    model = opt()
    model.set_attn_implementation(attention)
    with pytest.raises(ModelError) as caught:
        refuse_leak(Objective(model, "float32"))
    fault = fault_of(caught)
    assert fault.what.startswith("packed documents see each other")
    assert fault.where == "data.packing"
    assert fault.got.endswith(f"with attention {attention}")
    assert fault.expected == "exactly the same logits"


def given_otherwise(model, **changes):
    """Lets the model's body receive other inputs than the objective gives it."""
    original = model.model.forward

    def forward(input_ids, position_ids=None, **others):
        given = {"input_ids": input_ids, "position_ids": position_ids, **others}
        return original(**given | {name: make(input_ids) for name, make in changes.items()})

    model.model.forward = forward
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {"use_cache": lambda _: True},
        {"attention_mask": torch.ones_like},
        {"position_ids": lambda _: None},
    ],
    ids=["a cache", "a mask of ones", "no positions"],
)
def test_every_wrong_input_on_the_way_to_the_attention_is_found(build, changes):
    with pytest.raises(ModelError, match="see each other") as caught:
        refuse_leak(Objective(given_otherwise(build.tiny_llama(), **changes), "float32"))
    assert float(fault_of(caught).got.split()[3]) > 0.05


def test_a_document_that_costs_another_loss_in_a_row_is_found(build):
    """What counts positions along the row, and not along the document, leaks nothing and is wrong:
    here the hidden state grows with the place in the row."""
    model = build.tiny_llama()
    original = model.model.forward

    def forward(input_ids, position_ids=None, **others):
        output = original(input_ids=input_ids, position_ids=position_ids, **others)
        place = torch.arange(input_ids.shape[1])[None, :, None]
        hidden = output.last_hidden_state * (1 + place)
        return dataclasses.replace(output, last_hidden_state=hidden)

    model.model.forward = forward
    with pytest.raises(ModelError) as caught:
        refuse_leak(Objective(model, "float32"))
    assert fault_of(caught).what == "a document costs another loss when it is packed"
    assert fault_of(caught).got.endswith("alone, with attention sdpa")


def test_a_model_without_position_ids_is_refused():
    with pytest.raises(ModelError) as caught:
        refuse_leak(Objective(bloom(), "float32"))
    fault = fault_of(caught)
    assert fault.what.startswith("the model takes no position_ids")
    assert (fault.where, fault.got) == ("data.packing", "BloomForCausalLM")


def test_a_body_without_position_ids_is_refused_though_the_whole_model_takes_them(build):
    """The head alone needs none; it is the body that runs."""
    model = build.tiny_llama()
    original = model.model.forward
    model.model.forward = lambda input_ids, **others: original(input_ids=input_ids, **others)
    with pytest.raises(ModelError, match="takes no position_ids"):
        refuse_unpackable(model)


@pytest.mark.parametrize("attention", ["flash_attention_3", "paged|sdpa", "sage", None])
def test_an_attention_back_end_that_is_not_proven_is_refused(build, attention):
    model = build.tiny_llama()
    model.config._attn_implementation_internal = attention
    with pytest.raises(ModelError) as caught:
        refuse_unpackable(model)
    fault = fault_of(caught)
    assert fault.got == f"attention {attention}"
    assert fault.expected == "one of eager, sdpa, flex_attention, flash_attention_2"


def test_a_module_of_which_nothing_is_known_is_refused_for_both_reasons(build):
    with pytest.raises(ModelError) as caught:
        refuse_unpackable(build.Bigram(torch.zeros(4, 4)))
    assert len(caught.value.faults) == 2


def drawing(model):
    """Lets the model draw a number with every forward pass, in evaluation mode too."""

    def draw(*_):
        torch.rand(1)

    model.lm_head.register_forward_pre_hook(draw)
    return model


def test_looking_for_a_leak_leaves_modes_and_random_states_alone():
    """GPT-2 has dropout, and one of its layers is in evaluation mode while the rest trains."""
    model = drawing(gpt2())
    objective = Objective(model, "float32")
    model.train().transformer.h[0].eval()
    modes = [module.training for module in model.modules()]
    states = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())  # noqa: NPY002

    refuse_leak(objective)

    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), repr(np.random.get_state())) == states[1:]  # noqa: NPY002
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_found_leak_leaves_modes_alone_too():
    model = opt().train()
    with pytest.raises(ModelError, match="see each other"):
        refuse_leak(Objective(model, "float32"))
    assert all(module.training for module in model.modules())


def test_weights_that_are_not_finite_are_left_to_the_first_evaluation(build):
    model = build.tiny_llama()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    refuse_leak(Objective(model, "float32"))
