"""The loop, window by window, on models whose losses are known by hand."""

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from sweeper.records import Phase, Reason, Skip
from sweeper.training.adapter import adapt
from sweeper.training.determinism import seed_everything
from sweeper.training.optimizer import set_rate
from sweeper.training.options import (
    AdamWOptions,
    EvaluationGrid,
    EvaluationOptions,
    LoraOptions,
    ScheduleOptions,
    SgdOptions,
    Warmup,
)
from sweeper.training.stopping import Nonfinite, NoUpdates, Stalled, StopOptions

SGD = SgdOptions(kind="sgd")
PATIENT = StopOptions(
    nonfinite=Nonfinite(loss=99, gradient=99),
    no_updates=NoUpdates(windows=99),
    stalled=Stalled(updates=99),
)


def every(target_tokens):
    return EvaluationOptions(every=EvaluationGrid(target_tokens=target_tokens))


def poisoned(build):
    """Token 0 costs 4 nats; the weights of token 1 are finite, but ten times them overflows."""
    table = build.table_with_losses([4.0, 1.0], dtype=torch.float32) / 10
    table[1] = 3e38
    return build.Bigram(table, scale=10.0)


def bits(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


# --- the loss of a window ----------------------------------------------------------------------


@pytest.fixture
def first_loss(build):
    def run(losses, examples, micro_batch):
        model = build.Bigram(build.table_with_losses(losses))
        windows = build.windows_of(examples, [len(examples)])
        return build.run(model, windows, micro_batch=micro_batch).losses[0]

    return run


def test_three_tokens_in_one_batch_and_one_in_another_weigh_the_same_each(build, first_loss):
    """Losses (1, 2, 3) and (9): 15 / 4. A mean of means would be 5.5."""
    examples = [build.costing(0, 1, 2), build.costing(3)]
    assert first_loss([1.0, 2.0, 3.0, 9.0], examples, 1) == pytest.approx(3.75, rel=1e-12)


def test_five_tokens_and_one_have_a_sixth_each(build, first_loss):
    """(5 x 1 + 7) / 6 = 2; a mean over batches would weigh the single token by one half."""
    examples = [build.costing(0, 0, 0, 0, 0), build.costing(1)]
    assert first_loss([1.0, 7.0], examples, 1) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("micro_batch", [1, 2, 4])
def test_more_micro_batches_do_not_raise_the_loss(micro_batch, build, first_loss):
    examples = [build.costing(0)] * 4
    assert first_loss([2.0], examples, micro_batch) == pytest.approx(2.0, rel=1e-12)


def test_a_micro_batch_without_targets_adds_nothing(build, first_loss):
    """Nothing and (2, 2, 2): 6 / 3."""
    examples = [build.example([1, 0, 0], targets=[]), build.costing(0, 0, 0)]
    assert first_loss([2.0], examples, 1) == pytest.approx(2.0, rel=1e-12)


def test_a_short_last_window_is_divided_by_its_own_targets(build):
    """Windows of 3 and 1 records, gradient 1 each: both updates have the full size."""
    model = build.Bigram(torch.zeros(2, 2, dtype=torch.float64))
    windows = build.windows_of([build.costing(0)] * 4, [3, 1])
    run = build.run(model, windows, options=build.training_options(1e-9, optimizer=SGD))
    assert run.losses == pytest.approx([math.log(2)] * 2, rel=1e-8)
    norms = [update.gradient_norm for update in run.updates]
    assert norms == pytest.approx([math.sqrt(0.5)] * 2, rel=1e-8)


def test_five_records_in_windows_of_four_are_two_updates_and_none_is_lost(build):
    model = build.Bigram(torch.zeros(2, 2))
    options = build.training_options(
        1.0, schedule=ScheduleOptions(kind="constant", warmup=Warmup(updates=2)), optimizer=SGD
    )
    windows = build.windows_of([build.costing(0)] * 5, [4, 1])
    run = build.run(model, windows, options=options, micro_batch=1)
    assert [update.learning_rate for update in run.updates] == [0.5, 1.0]
    assert run.updates[-1].target_tokens_applied == 5
    assert run.outcome.reason is Reason.BUDGET_REACHED


# --- clipping -----------------------------------------------------------------------------------


def test_the_gradient_is_clipped_after_the_whole_window_and_its_norm_before_is_on_record(build):
    """Uniform logits over two: gradient (-1/2, 1/2), norm 0.7071, clipped to 0.1; the rate is 1."""
    model = build.Bigram(torch.zeros(2, 2, dtype=torch.float64))
    options = build.training_options(1.0, optimizer=SGD, clip_norm=0.1)
    windows = build.windows_of([build.costing(0)] * 3, [3])
    (update,) = build.run(model, windows, options=options, micro_batch=1).updates
    assert update.clipped
    assert update.gradient_norm == pytest.approx(math.sqrt(0.5), rel=1e-12)
    moved = model.table.detach()[0].tolist()
    # torch divides by the norm + 1e-6, hence the tolerance
    assert moved == pytest.approx([0.1 / math.sqrt(2), -0.1 / math.sqrt(2)], rel=2e-6)


def test_below_the_threshold_nothing_is_clipped(build):
    model = build.Bigram(torch.zeros(2, 2))
    options = build.training_options(clip_norm=1.0)
    run = build.run(model, build.windows_of([build.costing(0)], [1]), options=options)
    assert not run.updates[0].clipped


# --- windows that end in no update --------------------------------------------------------------


@pytest.fixture
def interrupted_by_an_empty_window(build):
    """Window 2 of 3 has no target; AdamW with decay would still move the weights on a step."""
    model = build.Bigram(torch.zeros(2, 2, dtype=torch.float64))
    silent = build.example([0, 0], targets=[])
    options = build.training_options(
        schedule=ScheduleOptions(kind="constant", warmup=Warmup(updates=4)),
        optimizer=AdamWOptions(kind="adamw", weight_decay=0.1),
    )
    seen = []
    windows = build.windows_of([build.costing(0), silent, build.costing(0)], [1, 1, 1])
    run = build.run(
        model, windows, options=options, interrupted=lambda: seen.append(bits(model)) is not None
    )
    return run, seen


def test_a_window_without_targets_is_not_stepped(interrupted_by_an_empty_window):
    run, weights = interrupted_by_an_empty_window
    assert [update.ran for update in run.updates] == [True, False, True]
    assert [update.updates for update in run.updates] == [1, 1, 2]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_a_window_without_targets_has_neither_loss_nor_rate_nor_norm(
    interrupted_by_an_empty_window,
):
    run, _ = interrupted_by_an_empty_window
    empty = run.updates[1]
    assert empty.skip is Skip.NO_TARGETS
    assert (empty.loss, empty.learning_rate, empty.gradient_norm) == (None, None, None)


def test_a_skipped_window_does_not_advance_the_rate(interrupted_by_an_empty_window):
    run, _ = interrupted_by_an_empty_window
    rates = [update.learning_rate for update in run.updates]
    assert rates == pytest.approx([0.025, None, 0.05])


def test_a_nonfinite_loss_is_recorded_as_it_is_and_not_stepped(build):
    """The windows' own losses are nan and 4; nothing is filtered out or averaged away."""
    model = poisoned(build)
    windows = build.windows_of([build.costing(1), build.costing(0)], [1, 1])
    options = build.training_options(
        0.1, schedule=ScheduleOptions(kind="constant", warmup=Warmup(updates=4))
    )
    first, second = build.run(model, windows, stop=PATIENT, options=options).updates
    assert math.isnan(first.loss)
    assert (first.ran, first.skip) == (False, Skip.NONFINITE_LOSS)
    assert (second.ran, second.loss) == (True, pytest.approx(4.0, rel=1e-6))
    assert [first.learning_rate, second.learning_rate] == [0.025, 0.025]


def test_no_weight_moves_in_a_window_with_a_nonfinite_loss(build):
    model = poisoned(build)
    before = bits(model)
    windows = build.windows_of([build.costing(1), build.costing(1, 0)], [1, 1])
    build.run(model, windows, stop=PATIENT)
    assert torch.equal(bits(model), before)


def test_a_norm_that_overflows_is_not_stepped_though_loss_and_gradients_are_finite(build):
    """Each gradient is 1.5e38 in float32; torch would clip them to zero and step with that."""
    model = build.Bigram(torch.zeros(2, 2), scale=3e38)
    windows = build.windows_of([build.costing(0)], [1])
    options = build.training_options(clip_norm=1.0)
    (update,) = build.run(model, windows, stop=PATIENT, options=options).updates
    assert update.skip is Skip.NONFINITE_GRADIENT
    assert update.loss == pytest.approx(math.log(2))
    assert math.isinf(update.gradient_norm)
    assert not bits(model).any()


def test_a_skipped_window_is_read_but_not_applied(build):
    model = build.Bigram(torch.zeros(2, 2), scale=3e38)
    windows = build.windows_of([build.costing(0), build.costing(0, 0)], [1, 1])
    run = build.run(model, windows, stop=PATIENT)
    assert [update.target_tokens_read for update in run.updates] == [1, 3]
    assert [update.target_tokens_applied for update in run.updates] == [0, 0]


# --- what is on record --------------------------------------------------------------------------


def test_every_window_reports_its_place_and_its_counts(build):
    examples = [build.costing(0), build.costing(0, 0, 0), build.costing(0, 0)]
    windows = build.windows_of(examples, [2, 1])
    first, second = build.run(build.Bigram(torch.zeros(2, 2)), windows).updates
    assert (first.window, first.first_record, first.records) == (1, 0, 2)
    assert (second.window, second.first_record, second.records) == (2, 2, 1)
    assert (first.target_tokens, first.input_tokens, first.padding_tokens) == (4, 8, 4)
    assert (second.target_tokens, second.input_tokens, second.padding_tokens) == (2, 4, 0)
    assert [first.record_digest, second.record_digest] == [w.planned.record_digest for w in windows]
    assert first.seconds == 1.0
    assert first.peak_memory_bytes > 2**20


def test_the_rates_are_those_of_the_schedule(build):
    options = build.training_options(
        1.0, schedule=ScheduleOptions(kind="linear", warmup=Warmup(updates=2)), optimizer=SGD
    )
    windows = build.windows_of([build.costing(0)] * 10, [1] * 10)
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, options=options)
    found = [update.learning_rate for update in run.updates]
    assert found == pytest.approx([0.5] + [index / 9 for index in range(9, 0, -1)])


def test_a_schedule_may_go_by_target_tokens(build):
    """Windows of 2 and 6 targets, warm-up of 4: 2/4; then (8 - 4) / (8 - 4 + 6) = 0.4 down."""
    schedule = ScheduleOptions(
        kind="linear", counter="target_tokens", warmup=Warmup(target_tokens=4)
    )
    windows = build.windows_of([build.costing(0, 0), build.costing(*[0] * 6)], [1, 1])
    run = build.run(
        build.Bigram(torch.zeros(2, 2)),
        windows,
        options=build.training_options(1.0, schedule=schedule, optimizer=SGD),
    )
    assert [update.learning_rate for update in run.updates] == pytest.approx([0.5, 0.6])


def test_target_tokens_of_a_skipped_window_do_not_move_the_schedule(build):
    """Windows of 2, 2 and 6 targets, the second without a loss; warm-up of 4. Tried at 2 / 4 and at
    4 / 4, and since that did not run, the third is tried at c = 8: (8 - 4) / (10 - 4 + 6) down."""
    model = poisoned(build)
    schedule = ScheduleOptions(
        kind="linear", counter="target_tokens", warmup=Warmup(target_tokens=4)
    )
    examples = [build.costing(0, 0), build.costing(1, 1), build.costing(*[0] * 6)]
    run = build.run(
        model,
        build.windows_of(examples, [1, 1, 1]),
        stop=PATIENT,
        options=build.training_options(1e-3, schedule=schedule, optimizer=SGD),
    )
    assert [update.target_tokens_applied for update in run.updates] == [2, 2, 8]
    found = [update.learning_rate for update in run.updates]
    assert found == pytest.approx([0.5e-3, 1e-3, 2e-3 / 3], rel=1e-12)


def test_the_rate_on_record_is_read_back_from_the_optimizer(build, monkeypatch):
    """What a group really holds is told, not what was meant: here some fault halves it."""

    def halve(optimizer, rate):
        return set_rate(optimizer, rate / 2)

    monkeypatch.setattr("sweeper.training.loop.set_rate", halve)
    windows = build.windows_of([build.costing(0)], [1])
    (update,) = build.run(build.Bigram(torch.zeros(2, 2)), windows).updates
    assert update.learning_rate == 0.05


def test_a_model_that_cannot_be_taken_apart_is_told_of(build):
    run = build.run(build.Bigram(torch.zeros(2, 2)), build.windows_of([build.costing(0)], [1]))
    assert [notice[:40] for notice in run.notices] == ["logits are computed at every position, n"]


def test_a_usual_model_gives_no_notice(build):
    windows = build.windows_of(build.random_examples(4), [2, 2])
    assert build.run(build.tiny_llama(), windows).notices == []


# --- evaluations --------------------------------------------------------------------------------


@pytest.fixture
def both_sets(build):
    return [
        build.held_out([build.costing(0)]),
        build.held_out([build.costing(1), build.costing(1)], split="retention"),
    ]


def test_both_sets_are_scored_at_the_start_on_the_grid_and_at_the_end(build, both_sets):
    """Windows of 3 targets, grid of 4: reached at 6, 9, 12; the budget of 13 ends with index 4."""
    windows = build.windows_of([build.costing(0, 0, 0)] * 4 + [build.costing(0)], [1] * 5)
    run = build.run(
        build.Bigram(torch.zeros(2, 2)), windows, held_out=both_sets, evaluation=every(4)
    )
    found = [(e.split, e.index, e.target_tokens_read, e.updates) for e in run.evaluations]
    assert found == [
        ("validation", 0, 0, 0),
        ("retention", 0, 0, 0),
        ("validation", 1, 6, 2),
        ("retention", 1, 6, 2),
        ("validation", 2, 9, 3),
        ("retention", 2, 9, 3),
        ("validation", 3, 12, 4),
        ("retention", 3, 12, 4),
        ("validation", 4, 13, 5),
        ("retention", 4, 13, 5),
    ]


def test_the_evaluation_at_the_end_is_not_made_twice(build, both_sets):
    windows = build.windows_of([build.costing(0, 0)] * 2, [1, 1])
    run = build.run(
        build.Bigram(torch.zeros(2, 2)), windows, held_out=both_sets[:1], evaluation=every(2)
    )
    assert [evaluation.index for evaluation in run.evaluations] == [0, 1, 2]


def test_without_a_grid_start_and_end_are_scored(build, both_sets):
    windows = build.windows_of([build.costing(0)] * 3, [1] * 3)
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, held_out=both_sets[:1])
    assert [evaluation.index for evaluation in run.evaluations] == [0, 1]


def test_an_evaluation_says_what_it_scored(build, both_sets):
    windows = build.windows_of([build.costing(0)], [1])
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, held_out=both_sets, micro_batch=2)
    retention = run.evaluations[1]
    assert retention.loss == pytest.approx(math.log(2))
    assert (retention.target_tokens, retention.records, retention.micro_batch) == (2, 2, 2)
    assert retention.dtype == "float32"
    assert retention.set_digest == both_sets[1].set_digest


def test_the_phases_turn_with_the_work(build, both_sets):
    windows = build.windows_of([build.costing(0)], [1])
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, held_out=both_sets)
    assert run.phases == [Phase.EVALUATING, Phase.TRAINING, Phase.EVALUATING, Phase.TRAINING]


# --- the same again -----------------------------------------------------------------------------


@pytest.fixture
def with_dropout(build):
    """Trains an adapter with dropout on GPT-2, which has dropout of its own."""

    def run(seed, **changes):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            base = GPT2LMHeadModel(
                GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=64)
            )
        lora = LoraOptions(rank=4, dropout=0.1, targets=("c_attn",))
        adapted = adapt(base, lora, seed=0)
        seed_everything(seed)
        windows = build.windows_of(build.random_examples(12), [4, 4, 4])
        run = build.run(adapted.model, windows, **changes)
        return run.losses, bits(adapted.model)

    return run


def test_the_same_trial_twice_is_equal_to_the_bit(with_dropout):
    first_losses, first_weights = with_dropout(seed=3)
    torch.rand(11)
    again_losses, again_weights = with_dropout(seed=3)
    assert again_losses == first_losses
    assert torch.equal(again_weights, first_weights)


def test_dropout_follows_the_seed(with_dropout):
    assert with_dropout(seed=3)[0] != with_dropout(seed=4)[0]


def test_evaluating_changes_nothing_in_training(build, with_dropout):
    held_out = [build.held_out(build.random_examples(5, seed=9))]
    losses, weights = with_dropout(seed=3)
    seen_losses, seen_weights = with_dropout(seed=3, held_out=held_out, evaluation=every(5))
    assert seen_losses == losses
    assert torch.equal(seen_weights, weights)
