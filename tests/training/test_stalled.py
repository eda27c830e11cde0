"""Weights that do not move although updates run: the trial ends, with the reason."""

import pytest
import torch
from torch import nn

from sweeper.errors import ModelError
from sweeper.records import Reason
from sweeper.training.options import SgdOptions
from sweeper.training.stopping import Stalled, StopOptions

STOP = StopOptions(stalled=Stalled(updates=3))
SGD = SgdOptions(kind="sgd")


class Unreached(nn.Module):
    """A bigram table whose gradient reaches a frozen copy alone, so that nothing moves."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, **inputs):
        output = self.inner(**inputs)
        output.logits = output.logits.detach() + 0.0 * output.logits
        return output


def run_of(build, model, rate):
    windows = build.windows_of([build.costing(0, 1)] * 10, [1] * 10)
    options = build.training_options(rate, optimizer=SGD)
    return build.run(model, windows, options=options, stop=STOP)


def test_weights_without_a_gradient_stop_the_trial_after_the_agreed_updates(build):
    run = run_of(build, Unreached(build.Bigram(torch.zeros(2, 2))), 0.1)
    assert run.outcome.reason is Reason.STALLED_UPDATES
    assert run.stop.updates == 3
    assert run.outcome.detail.startswith(
        "3 updates in a row ran without moving any trainable weight (agreed limit: 3)"
    )


def test_updates_below_half_a_step_of_float32_move_nothing(build):
    """The table's entries are 1 and change by at most 1e-9; their steps are above 5e-8."""
    run = run_of(build, build.Bigram(torch.ones(2, 2)), 1e-9)
    assert run.outcome.reason is Reason.STALLED_UPDATES


def test_updates_of_a_few_steps_go_on(build):
    run = run_of(build, build.Bigram(torch.ones(2, 2)), 1e-6)
    assert run.outcome.reason is Reason.BUDGET_REACHED


def test_bfloat16_weights_which_would_stall_so_are_not_trained_at_all(build):
    model = build.Bigram(torch.ones(2, 2, dtype=torch.bfloat16))
    with pytest.raises(ModelError, match="small updates would be lost"):
        run_of(build, model, 1e-3)
