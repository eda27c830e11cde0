"""How the loop ends: budget, stop conditions, interruption, each at exactly its window."""

import math

import pytest
import torch

from sweeper.records import OutcomeKind, Reason
from sweeper.training.exposure import Planned
from sweeper.training.options import (
    AdamWOptions,
    EvaluationGrid,
    EvaluationOptions,
    SgdOptions,
)
from sweeper.training.stopping import Diverged, Nonfinite, NoUpdates, Stalled, StopOptions

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


def test_a_trial_that_read_its_budget_is_completed(build):
    windows = build.windows_of([build.costing(0)] * 3, [2, 1])
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows)
    assert run.outcome.kind is OutcomeKind.COMPLETED
    assert run.outcome.detail == (
        "Read 3 target tokens in 2 windows, 2 of which ended in an update."
    )


def test_reading_less_than_planned_is_a_failure_and_nothing_is_scored_for_it(build):
    windows = build.windows_of([build.costing(0)] * 2, [1, 1])
    plan = Planned(
        windows=3, records=3, input_tokens=6, target_tokens=3, last_window_target_tokens=1
    )
    held_out = [build.held_out([build.costing(0)])]
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, planned=plan, held_out=held_out)
    assert run.outcome.reason is Reason.BUDGET_MISMATCH
    assert run.outcome.detail == (
        "Read 2 target tokens in 2 windows; the plan says 3 in 3, so window 3 is the first that"
        " differs."
    )
    assert [evaluation.index for evaluation in run.evaluations] == [0]


def test_an_interruption_ends_the_trial_after_the_window_and_before_any_evaluation(build):
    windows = build.windows_of([build.costing(0)] * 4, [1] * 4)
    held_out = [build.held_out([build.costing(0)])]
    answers = iter([False, True])
    run = build.run(
        build.Bigram(torch.zeros(2, 2)),
        windows,
        held_out=held_out,
        evaluation=every(2),
        interrupted=lambda: next(answers),
    )
    assert run.outcome.kind is OutcomeKind.LOST
    assert run.outcome.reason is Reason.PREEMPTED
    assert run.outcome.detail == (
        "Asked to end after window 2 of 4, with 2 of 4 target tokens read."
    )
    assert len(run.updates) == 2
    assert [evaluation.index for evaluation in run.evaluations] == [0]


def test_a_nonfinite_loss_stops_at_its_window(build):
    windows = build.windows_of([build.costing(0), build.costing(1), build.costing(0)], [1] * 3)
    run = build.run(poisoned(build), windows)
    assert run.outcome.reason is Reason.NONFINITE_LOSS
    assert run.outcome.kind is OutcomeKind.STOPPED
    assert (run.stop.window, run.stop.updates, run.stop.target_tokens_read) == (2, 1, 2)
    assert run.stop.last_finite_loss == pytest.approx(4.0, rel=1e-6)
    assert run.outcome.detail == run.stop.detail
    assert run.outcome.evidence == {
        "window": "2",
        "updates": "1",
        "target_tokens_read": "2",
        "last_finite_loss": repr(run.losses[0]),
    }
    assert len(run.updates) == 2


def test_a_nonfinite_gradient_stops_at_its_window(build):
    windows = build.windows_of([build.costing(0)] * 3, [1] * 3)
    stop = StopOptions(nonfinite=Nonfinite(gradient=2))
    run = build.run(build.Bigram(torch.zeros(2, 2), scale=3e38), windows, stop=stop)
    assert (run.outcome.reason, run.stop.window) == (Reason.NONFINITE_GRADIENT, 2)


def test_windows_without_updates_stop_the_trial(build):
    silent = build.example([0, 0], targets=[])
    examples = [build.costing(0), silent, silent, silent, build.costing(0)]
    stop = StopOptions(no_updates=NoUpdates(windows=3))
    run = build.run(build.Bigram(torch.zeros(2, 2)), build.windows_of(examples, [1] * 5), stop=stop)
    assert (run.outcome.reason, run.stop.window) == (Reason.NO_UPDATES, 4)


def test_updates_too_small_to_move_a_float32_weight_are_stalled(build):
    """Weights near 1 have a spacing of 1e-7; a rate of 1e-30 is rounded away. Window 2 is empty
    and counts neither way."""
    silent = build.example([0, 0], targets=[])
    examples = [build.costing(0), silent, *[build.costing(0)] * 4]
    run = build.run(
        build.Bigram(torch.ones(2, 2)),
        build.windows_of(examples, [1] * 6),
        options=build.training_options(1e-30),
        stop=StopOptions(stalled=Stalled(updates=3)),
    )
    assert run.outcome.reason is Reason.STALLED_UPDATES
    assert (run.stop.window, run.stop.updates) == (4, 3)
    assert "the last one being update 3 at rate 1e-30" in run.stop.detail


def test_updates_that_move_some_weight_are_not_stalled(build):
    model = build.Bigram(torch.ones(2, 2))
    windows = build.windows_of([build.costing(0)] * 4, [1] * 4)
    stop = StopOptions(stalled=Stalled(updates=1))
    assert build.run(model, windows, stop=stop).outcome.reason is Reason.BUDGET_REACHED


def test_a_validation_loss_that_keeps_rising_is_divergence(build):
    """Training teaches 0 -> 0, validation asks for 0 -> 1: each update costs it about a nat."""
    held_out = [build.held_out([build.example([0, 1])])]
    run = build.run(
        build.Bigram(torch.zeros(2, 2)),
        build.windows_of([build.costing(0)] * 8, [1] * 8),
        held_out=held_out,
        evaluation=every(1),
        options=build.training_options(1.0),
        stop=StopOptions(diverged=Diverged(nats_above_initial=1.0, evaluations=2)),
    )
    losses = [evaluation.loss for evaluation in run.evaluations]
    assert [loss > losses[0] + 1.0 for loss in losses] == [False, True, True]
    assert (run.outcome.reason, run.stop.window) == (Reason.DIVERGED, 2)


def test_divergence_at_the_very_end_comes_before_the_budget(build):
    run = build.run(
        build.Bigram(torch.zeros(2, 2)),
        build.windows_of([build.costing(0)] * 2, [1] * 2),
        held_out=[build.held_out([build.example([0, 1])])],
        options=build.training_options(1.0),
        stop=StopOptions(diverged=Diverged(nats_above_initial=1.0, evaluations=1)),
    )
    assert (run.outcome.reason, run.stop.target_tokens_read) == (Reason.DIVERGED, 2)


def test_a_stop_at_the_last_window_comes_before_the_budget(build):
    windows = build.windows_of([build.costing(0), build.costing(1)], [1, 1])
    run = build.run(poisoned(build), windows)
    assert run.outcome.reason is Reason.NONFINITE_LOSS


def test_a_held_out_loss_that_is_not_finite_stops_before_the_first_window(build):
    """10 x 3e38 overflows: the weights are finite, their logits are not."""
    model = build.Bigram(torch.full((2, 2), 10.0), scale=3e38)
    held_out = [build.held_out([build.costing(1)])]
    run = build.run(model, build.windows_of([build.costing(0)], [1]), held_out=held_out)
    assert run.outcome.reason is Reason.NONFINITE_LOSS
    assert (run.stop.window, run.updates) == (0, [])
    assert math.isnan(run.evaluations[0].loss)


def test_weights_that_are_not_finite_are_found_at_the_end_though_every_loss_was(build):
    """AdamW with eps 0 divides 0 by 0 for every weight without a gradient: row 1 is never read."""
    options = build.training_options(optimizer=AdamWOptions(kind="adamw", eps=0.0))
    held_out = [build.held_out([build.costing(0)])]
    windows = build.windows_of([build.costing(0)] * 2, [1, 1])
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, options=options, held_out=held_out)
    assert all(math.isfinite(loss) for loss in run.losses)
    assert run.outcome.reason is Reason.NONFINITE_PARAMETER
    assert "the first being table" in run.stop.detail
    assert [evaluation.index for evaluation in run.evaluations] == [0]
