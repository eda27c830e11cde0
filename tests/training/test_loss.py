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

from sweeper.training.adapter import adapt
from sweeper.training.batch import make_batches
from sweeper.training.loss import Objective, find_split, token_losses
from sweeper.training.options import LoraOptions

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


def in_rows(build, records):
    """Nine records as rows of four, three and two documents."""
    return [build.packed(*records[:4]), build.packed(*records[4:7]), build.packed(*records[7:])]


def packed_and_alone(build, attention):
    """Loss sums and gradients of nine records, packed in two micro-batches and one by one."""
    model = build.tiny_llama().double()
    model.set_attn_implementation(attention)
    records = build.random_examples(9)
    objective = Objective(model, "float64")
    alone = [next(make_batches([record], 1, 0)) for record in records]
    packed = list(make_batches(in_rows(build, records), 2, 0))
    targets = sum(batch.target_tokens for batch in alone)
    assert len(packed) == 2
    assert sum(batch.target_tokens for batch in packed) == targets
    sums = [sum(objective(batch) for batch in batches) for batches in (packed, alone)]
    return sums[0].item(), sums[1].item(), *[gradients(model, loss / targets) for loss in sums]


@pytest.fixture
def softmax_in_float64(monkeypatch):
    """Takes out the one place where transformers' eager attention computes in float32 regardless:
    it asks for its softmax in float32."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(
        torch.nn.functional, "softmax", lambda scores, dim, dtype: softmax(scores, dim=dim)
    )


def test_the_gradient_of_a_packed_window_is_that_of_the_records_one_by_one(build):
    """huggingface/trl #1230, #805: packed examples attended across their borders."""
    packed_loss, alone_loss, packed, alone = packed_and_alone(build, "sdpa")
    assert packed_loss == pytest.approx(alone_loss, rel=1e-12)
    assert (packed - alone).abs().max() < 1e-10
    assert alone.abs().max() > 1e-3


def test_the_gradient_of_a_packed_window_is_the_same_with_eager_attention(
    build, softmax_in_float64
):
    packed_loss, alone_loss, packed, alone = packed_and_alone(build, "eager")
    assert packed_loss == pytest.approx(alone_loss, rel=1e-12)
    assert (packed - alone).abs().max() < 1e-10


def test_eager_attention_as_it_is_differs_by_the_rounding_of_its_float32_softmax(build):
    packed_loss, alone_loss, packed, alone = packed_and_alone(build, "eager")
    assert packed_loss == pytest.approx(alone_loss, rel=2**-24)
    assert (packed - alone).abs().max() < 2**-24


def test_the_gradient_of_an_adapter_is_the_same_packed(build):
    model = adapt(build.tiny_llama().double(), LoraOptions(rank=2), seed=0).model.double()
    torch.nn.init.normal_(next(p for name, p in model.named_parameters() if "lora_B" in name))
    records = build.random_examples(9)
    objective = Objective(model, "float64")
    assert objective.split is not None
    (packed,) = make_batches(in_rows(build, records), 3, 0)
    expected = trained_gradients(model, objective(one_batch(records)))
    difference = trained_gradients(model, objective(packed)) - expected
    assert difference.abs().max() < 1e-10
    assert expected.abs().max() > 1e-3


def trained_gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


def test_each_packed_target_costs_what_it_costs_alone_and_in_the_same_order(build):
    objective = Objective(build.tiny_llama().double(), "float64")
    records = build.random_examples(9)
    (packed,) = make_batches(in_rows(build, records), 3, 0)
    alone = [objective.token_losses(one_batch([record])) for record in records]
    difference = objective.token_losses(packed) - torch.cat(alone)
    assert difference.abs().max() < 1e-12


def test_body_and_head_are_the_whole_model_for_packed_rows_too(build):
    model = build.tiny_llama()
    objective = Objective(model, "float32")
    (packed,) = make_batches(in_rows(build, build.random_examples(9)), 3, 0)
    with torch.no_grad():
        whole = model(
            input_ids=packed.token_ids_bt, position_ids=packed.positions_bt, use_cache=False
        ).logits[packed.rows_n, packed.columns_n]
        found = objective.logits(packed)
    assert objective.split is not None
    assert torch.equal(found, whole)


@pytest.mark.parametrize("make", [granite, gpt2])
def test_other_models_cost_the_same_packed(make, build):
    """Granite is run whole; GPT-2 adds a vector for each absolute position."""
    objective = Objective(make().double().eval(), "float64")
    records = build.random_examples(9)
    (packed,) = make_batches(in_rows(build, records), 3, 0)
    assert objective(packed).item() == pytest.approx(
        objective(one_batch(records)).item(), rel=1e-12
    )
