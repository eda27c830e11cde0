"""The held-out loss is a matter of tokens, not of batches."""

import pytest
import torch

from sweeper.training.evaluation import held_out_loss
from sweeper.training.loss import Objective


def loss_of(build, table, examples, micro_batch):
    model = build.Bigram(table)
    objective = Objective(model, "float64")
    loss, targets = held_out_loss(
        model, objective, build.held_out(examples), micro_batch=micro_batch, pad_token_id=0
    )
    assert targets == sum(example.target_tokens for example in examples)
    return loss


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 4])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_four_records_of_unequal_length_cost_what_their_tokens_cost(micro_batch, order, build):
    """1, 1, 8 and 10 tokens at 4, 4, 1 and 1 nats: 26 / 20. Means of batches would give 2.5."""
    table = build.table_with_losses([1.0, 4.0])
    records = [
        build.costing(1),
        build.costing(1),
        build.costing(*[0] * 8),
        build.costing(*[0] * 10),
    ]
    examples = [records[index] for index in order]
    assert loss_of(build, table, examples, micro_batch) == pytest.approx(1.3, rel=1e-12)


@pytest.mark.parametrize("micro_batch", [5, 6])
def test_a_sum_of_ten_over_five_and_eight_over_one_is_three(micro_batch, build):
    """The mean of the two batches would be 5."""
    table = build.table_with_losses([2.0, 8.0])
    examples = [build.costing(0)] * 5 + [build.costing(1)]
    assert loss_of(build, table, examples, micro_batch) == pytest.approx(3.0, rel=1e-12)


def test_a_last_batch_of_one_weighs_one_record(build):
    """Four rows at 1 and one at 5: 9 / 5, not 3."""
    table = build.table_with_losses([1.0, 5.0])
    examples = [build.costing(0)] * 4 + [build.costing(1)]
    assert loss_of(build, table, examples, 4) == pytest.approx(1.8, rel=1e-12)


def test_a_language_model_gives_the_same_loss_at_any_batch_size(build):
    model = build.tiny_llama().double()
    held_out = build.held_out(build.random_examples(7))
    objective = Objective(model, "float64")
    losses = [
        held_out_loss(model, objective, held_out, micro_batch=size, pad_token_id=0)[0]
        for size in (1, 2, 3, 7)
    ]
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-13)


def test_dropout_is_off_while_scoring(build):
    """The same weights without any dropout give the same bits."""
    held_out = build.held_out(build.random_examples(3))

    def loss_with(dropout):
        model = build.tiny_llama(attention_dropout=dropout).train()
        objective = Objective(model, "float32")
        return held_out_loss(model, objective, held_out, micro_batch=2, pad_token_id=0)

    assert loss_with(dropout=0.5) == loss_with(dropout=0.0)


def test_a_model_that_draws_even_while_it_is_scored_leaves_no_trace(build):
    class Restless(build.Bigram):
        def forward(self, **inputs):
            torch.rand(3)
            return super().forward(**inputs)

    model = Restless(torch.zeros(2, 2))
    objective = Objective(model, "float32")
    before = torch.get_rng_state()
    held_out = build.held_out([build.costing(0)])
    held_out_loss(model, objective, held_out, micro_batch=2, pad_token_id=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_scoring_leaves_mode_random_state_and_gradients_alone(build):
    model = build.tiny_llama(attention_dropout=0.5).train()
    before = torch.get_rng_state()
    held_out = build.held_out(build.random_examples(3))
    objective = Objective(model, "float32")
    first, _ = held_out_loss(model, objective, held_out, micro_batch=2, pad_token_id=0)
    second, _ = held_out_loss(model, objective, held_out, micro_batch=2, pad_token_id=0)
    assert first == second
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())
