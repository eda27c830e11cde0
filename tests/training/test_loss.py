"""The objective, by hand and against the whole model's logits."""

import math

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
)

from sweeper.training.batch import make_batches
from sweeper.training.loss import Objective, find_split, token_losses

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def one_batch(examples):
    (batch,) = make_batches(examples, len(examples), 0)
    return batch


def test_uniform_logits_over_four_tokens_cost_the_logarithm_of_four_each(build):
    objective = Objective(build.Bigram(torch.zeros(4, 4, dtype=torch.float64)), "float64")
    loss_sum = objective(one_batch([build.example([0, 1, 2, 3])]))
    assert loss_sum.item() == pytest.approx(3 * math.log(4), rel=1e-15)
    assert loss_sum.item() == pytest.approx(4.1588830833596715, rel=1e-15)


def test_two_classes_with_odds_of_three_to_one():
    logits = torch.tensor([[0.0, math.log(3)]], dtype=torch.float64, requires_grad=True)
    loss = token_losses(logits, torch.tensor([1])).sum()
    loss.backward()
    assert loss.item() == pytest.approx(0.2876820724517809, rel=1e-14)
    assert logits.grad[0].tolist() == pytest.approx([0.25, -0.25], rel=1e-14)


def test_logits_in_bfloat16_are_scored_in_float32():
    losses = token_losses(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1]))
    assert losses.dtype == torch.float32
    assert losses.tolist() == pytest.approx([math.log(3)] * 2, rel=1e-6)


def test_the_sum_of_many_float32_losses_is_exact(build):
    """3001 times the float32 nearest to ln 2 has more digits than a float32 holds."""
    objective = Objective(build.Bigram(torch.zeros(2, 2)), "float32")
    loss_sum = objective(one_batch([build.costing(*[0] * 3001)]))
    assert loss_sum.item() == 3001 * torch.tensor(2.0).log().item()


def full_loss_sum(model, examples):
    """Every logit of every position, then the supervised ones."""
    batch = one_batch(examples)
    logits = model(input_ids=batch.token_ids_bt, attention_mask=batch.present_bt).logits
    chosen = logits[batch.rows_n, batch.columns_n].double()
    return torch.nn.functional.cross_entropy(chosen, batch.targets_n, reduction="sum")


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    )


def granite():
    return GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=4.0))


def gemma2():
    return Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=16, final_logit_softcapping=0.5))


def test_the_head_on_supervised_positions_alone_gives_loss_and_gradient_of_the_full_logits(build):
    model = build.tiny_llama().double()
    examples = build.random_examples(5)
    objective = Objective(model, "float64")
    assert objective.split is not None
    supervised, full = objective(one_batch(examples)), full_loss_sum(model, examples)
    assert supervised.item() == pytest.approx(full.item(), rel=1e-12)
    difference = gradients(model, supervised) - gradients(model, full)
    assert difference.abs().max() < 1e-12


@pytest.mark.parametrize("make", [granite, gemma2])
def test_a_model_that_scales_or_caps_its_logits_is_run_whole(make, build):
    """Granite divides its logits by 4; Gemma 2 caps them: the bare head would be another loss."""
    model = make().double().eval()
    objective = Objective(model, "float64")
    assert objective.split is None
    examples = build.random_examples(3)
    loss = objective(one_batch(examples))
    assert loss.item() == pytest.approx(full_loss_sum(model, examples).item(), rel=1e-12)


def test_a_tied_head_is_found_too():
    assert find_split(gpt2(), "float32") is not None


def test_trying_out_the_split_leaves_mode_and_random_state_alone():
    """GPT-2 has dropout, so a forward pass in training mode would draw."""
    model = gpt2().train()
    before = torch.get_rng_state()
    find_split(model, "float32")
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)


def test_padding_and_what_stands_in_it_change_nothing(build):
    objective = Objective(build.tiny_llama().double(), "float64")
    short, long = build.example([7, 8, 9]), build.example([1] * 12)
    alone = objective(one_batch([short])) + objective(one_batch([long]))
    together = [objective(next(make_batches([short, long], 2, pad))).item() for pad in (0, 9)]
    assert together == pytest.approx([alone.item()] * 2, rel=1e-12)
    assert together[0] == together[1]


def test_bfloat16_autocast_changes_the_loss_a_little_and_keeps_it_float64(build):
    model, examples = build.tiny_llama(), build.random_examples(4)
    exact = Objective(model, "float32")(one_batch(examples))
    rounded = Objective(model, "bfloat16")(one_batch(examples))
    assert rounded.dtype == torch.float64
    assert 0 < abs(rounded.item() / exact.item() - 1) < 2**-7
