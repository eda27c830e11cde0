"""Loss scaling: torch's scaler on a CPU, driven by the loop, with overflows put where we want them.

Numbers marked R are those of hand-worked reference cases; each is worked again here.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from sweeper.records import Reason, Skip
from sweeper.training.checkpoint import read_checkpoint
from sweeper.training.keeper import Keeping
from sweeper.training.options import AdamWOptions, ScheduleOptions, SgdOptions, Warmup
from sweeper.training.scaling import finish_window, make_scaler
from sweeper.training.stopping import Nonfinite, NoUpdates, StopOptions

PATIENT = StopOptions(nonfinite=Nonfinite(loss=99, gradient=99), no_updates=NoUpdates(windows=99))
INF, NAN = math.inf, math.nan


class _Planted(torch.autograd.Function):
    """Two equal logits for every token, whatever the weights; the gradient is as it was planted.

    A target pulls the other logit by one half times whatever the loss is multiplied by, and so
    the gradient comes out as twice the pull times the planted one: exactly, unless it overflows.
    """

    @staticmethod
    def forward(ctx, weights, gradients_btw, logits_btv):
        ctx.save_for_backward(gradients_btw)
        return logits_btv

    @staticmethod
    def backward(ctx, pulls_btv):
        (gradients_btw,) = ctx.saved_tensors
        pulls_bt = 2 * pulls_btv[..., 1].nan_to_num(0.0)
        asked = pulls_bt != 0
        return (pulls_bt[asked][:, None] * gradients_btw[asked]).sum(0), None, None


class Planted(nn.Module):
    """Each target after token k costs ln 2 and has the gradient `gradients[k]` for the weights.

    After token 0 nothing is asked. A target after a token in `without_loss` costs NaN, and its
    gradient is zero.
    """

    def __init__(self, weights, gradients, *, without_loss=()):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights))
        self.gradients = torch.tensor([[0.0] * len(weights), *gradients])
        self.logits = torch.zeros(len(self.gradients) + 1, 2)
        self.logits[list(without_loss)] = NAN

    def forward(self, input_ids, attention_mask, use_cache):
        gradients, logits = self.gradients[input_ids], self.logits[input_ids]
        return SimpleNamespace(logits=_Planted.apply(self.weights, gradients, logits))


def scaler_at(scale, *, growth_interval=2000, **changes):
    return GradScaler("cpu", init_scale=scale, growth_interval=growth_interval, **changes)


@pytest.fixture
def train(build):
    """Runs SGD over windows of one target each, after the given tokens; returns the run, and the
    scale and the weights after each window."""

    def run(model, tokens, scaler, *, rate, clip_norm=None, stop=PATIENT, **changes):
        windows = build.windows_of([build.costing(token) for token in tokens], [1] * len(tokens))
        seen = []

        def look():
            seen.append((scaler.get_scale(), model.weights.tolist()))
            return False

        options = build.training_options(
            rate, optimizer=SgdOptions(kind="sgd"), clip_norm=clip_norm
        )
        settings = {"options": options, "stop": stop} | changes
        return build.run(model, windows, scaler=scaler, interrupted=look, **settings), seen

    return run


# --- the scale ----------------------------------------------------------------------------------


@pytest.mark.parametrize("overflow", [INF, -INF, NAN])
def test_an_overflow_halves_the_scale_and_a_good_window_keeps_it(overflow, train):
    """R18: 65536 after overflows in windows 1, 2 and 5."""
    model = Planted([0.0], [[overflow], [1.0]])
    _, seen = train(model, [1, 1, 2, 2, 1], scaler_at(65536.0), rate=0.5)
    assert [scale for scale, _ in seen] == [32768, 16384, 16384, 16384, 8192]


@pytest.mark.parametrize("overflow", [INF, NAN])
def test_the_scale_grows_after_good_windows_in_a_row_and_an_overflow_starts_the_row_anew(
    overflow, train
):
    """R18: it grows after two. The row of window 1 ends in window 2; 3 and 4 make one, 5 and 6."""
    model = Planted([1.0], [[1.0], [overflow]])
    scaler = scaler_at(8.0, growth_interval=2)
    _, seen = train(model, [1, 2, 1, 1, 1, 1], scaler, rate=0.5)
    assert seen == [(8, [0.5]), (4, [0.5]), (4, [0.0]), (8, [-0.5]), (8, [-1.0]), (16, [-1.5])]


def test_each_window_reports_the_scale_that_it_was_computed_with(train):
    model = Planted([1.0], [[1.0], [INF]])
    run, _ = train(model, [1, 2, 1], scaler_at(8.0), rate=0.5)
    assert [update.loss_scale for update in run.updates] == [8, 8, 4]


def test_without_loss_scaling_no_scale_is_reported(build):
    windows = build.windows_of([build.costing(1)], [1])
    (update,) = build.run(Planted([0.0], [[1.0]]), windows).updates
    assert update.loss_scale is None


@pytest.mark.parametrize(
    ("precision", "enabled"),
    [("float16", True), ("bfloat16", False), ("float32", False), ("float64", False)],
)
def test_only_float16_has_loss_scaling_with_torchs_own_settings(precision, enabled):
    scaler = make_scaler(precision, torch.device("cpu"))
    assert scaler.is_enabled() is enabled
    assert scaler.state_dict() == (
        {
            "scale": 65536.0,
            "growth_factor": 2.0,
            "backoff_factor": 0.5,
            "growth_interval": 2000,
            "_growth_tracker": 0,
        }
        if enabled
        else {}
    )


# --- gradients ----------------------------------------------------------------------------------


def test_the_gradient_is_clipped_after_it_was_unscaled_and_its_true_norm_is_on_record(train):
    """rwth-i6/returnn #1590: scale 1024, gradient (3, 4), clip 2, rate 1. Clipped while scaled, the
    weights would move by (-0.00117, -0.00156), and the norm on record would be 5120."""
    model = Planted([0.0, 0.0], [[3.0, 4.0]])
    run, seen = train(model, [1], scaler_at(1024.0), rate=1.0, clip_norm=2.0)
    (update,) = run.updates
    assert (update.gradient_norm, update.clipped) == (5.0, True)
    # torch divides by the norm + 1e-6, hence the tolerance
    assert seen[0][1] == pytest.approx([-1.2, -1.6], rel=3e-7)


def test_clipping_and_overflows_in_turn(train):
    """R18: clip 2 on (3, 4), rate 0.1, from (1, 1): a step of (-0.12, -0.16), none, another."""
    model = Planted([1.0, 1.0], [[3.0, 4.0], [INF, 4.0]])
    run, seen = train(model, [1, 2, 1], scaler_at(8.0), rate=0.1, clip_norm=2.0)
    first, second, third = (weights for _, weights in seen)
    assert first == pytest.approx([0.88, 0.84], rel=1e-6)
    assert second == first
    assert third == pytest.approx([0.76, 0.68], rel=1e-6)
    assert [update.gradient_norm for update in run.updates] == [5.0, INF, 5.0]


def test_a_whole_window_is_added_up_before_it_is_unscaled_once(build, train):
    """Two micro-batches of one target each with (6, 0) and (0, 8): the window's gradient is their
    mean, (3, 4). Unscaling twice is an error of torch's; a norm per batch would be 3 and 4."""
    model = Planted([0.0, 0.0], [[6.0, 0.0], [0.0, 8.0]])
    windows = build.windows_of([build.costing(1), build.costing(2)], [2])
    options = build.training_options(1.0, optimizer=SgdOptions(kind="sgd"), clip_norm=2.0)
    run = build.run(model, windows, options=options, scaler=scaler_at(1024.0), micro_batch=1)
    assert run.updates[0].gradient_norm == 5.0
    assert model.weights.tolist() == pytest.approx([-1.2, -1.6], rel=3e-7)


def test_one_micro_batch_that_overflows_spoils_the_whole_window(build):
    model = Planted([1.0], [[1.0], [INF]])
    windows = build.windows_of([build.costing(1), build.costing(2), build.costing(1)], [3])
    scaler = scaler_at(8.0)
    run = build.run(model, windows, scaler=scaler, micro_batch=1, stop=PATIENT)
    assert run.updates[0].skip is Skip.SCALER_OVERFLOW
    assert (model.weights.tolist(), scaler.get_scale()) == ([1.0], 4.0)


def test_a_gradient_too_large_for_its_scale_is_an_overflow_that_a_smaller_scale_ends(train):
    """1e38 x 8 is beyond float32's 3.4e38, and 1e38 x 4 is; 1e38 x 2 is not."""
    model = Planted([0.0], [[1e38]])
    run, _ = train(model, [1, 1, 1], scaler_at(8.0), rate=1e-38)
    assert [update.ran for update in run.updates] == [False, False, True]
    assert model.weights.tolist() == pytest.approx([-1.0], rel=1e-6)


# --- what a skipped window leaves alone ---------------------------------------------------------


def test_an_overflow_says_so_and_is_read_but_not_applied(train):
    """pytorch/pytorch #55585: nothing but our own flag says whether the optimizer ran."""
    model = Planted([1.0], [[INF], [1.0]])
    run, seen = train(model, [1, 2], scaler_at(65536.0), rate=0.5)
    skipped, ran = run.updates
    assert (skipped.ran, skipped.skip) == (False, Skip.SCALER_OVERFLOW)
    assert (skipped.target_tokens_read, skipped.target_tokens_applied, skipped.updates) == (1, 0, 0)
    assert (ran.target_tokens_read, ran.target_tokens_applied, ran.updates) == (2, 1, 1)
    assert seen[0] == (32768, [1.0])
    assert skipped.loss == pytest.approx(math.log(2))
    assert run.outcome.detail == "Read 2 target tokens in 2 windows, 1 of which ended in an update."


def test_an_overflow_moves_neither_weights_nor_moments_nor_the_count_of_updates(build, train):
    """AdamW would fade its moments, and move weights by them, in any update that it makes."""
    options = build.training_options(0.1, optimizer=AdamWOptions(kind="adamw"), clip_norm=1.0)
    gradients = [[3.0, 4.0], [-1.0, 0.5], [INF, 1.0]]
    with_overflows, without = (Planted([1.0, 1.0], gradients) for _ in range(2))
    scaled = {"rate": 0.1, "options": options}
    train(with_overflows, [3, 1, 3, 3, 2, 1], scaler_at(8.0), **scaled)
    train(without, [1, 2, 1], scaler_at(8.0), **scaled)
    assert with_overflows.weights.tolist() == without.weights.tolist()


def test_a_window_after_an_overflow_can_be_unscaled_again(train):
    """Haian-Jin/LVSM PR #19: without scaler.update after a skip, torch raises at the next one."""
    run, _ = train(Planted([1.0], [[INF]]), [1, 1, 1], scaler_at(8.0), rate=0.5)
    assert [update.skip for update in run.updates] == [Skip.SCALER_OVERFLOW] * 3


@pytest.mark.parametrize(
    ("counter", "warmup"), [("updates", {"updates": 4}), ("target_tokens", {"target_tokens": 4})]
)
def test_an_overflow_in_the_warmup_does_not_advance_the_rate(counter, warmup, build, train):
    """Lightning #18828: the first update that runs has a quarter of the peak, whenever it runs."""
    schedule = ScheduleOptions(kind="constant", counter=counter, warmup=Warmup(**warmup))
    options = build.training_options(1.0, optimizer=SgdOptions(kind="sgd"), schedule=schedule)
    model = Planted([0.0], [[INF], [1.0]])
    run, _ = train(model, [1, 2, 1, 2], scaler_at(8.0), rate=1.0, options=options)
    assert [update.learning_rate for update in run.updates] == [0.25, 0.25, 0.5, 0.5]
    assert model.weights.tolist() == [-0.75]


def test_overflows_in_a_row_stop_the_trial_as_no_updates(train):
    stop = StopOptions(no_updates=NoUpdates(windows=3))
    run, _ = train(Planted([1.0], [[INF]]), [1] * 5, scaler_at(8.0), rate=0.5, stop=stop)
    assert (run.outcome.reason, run.stop.window) == (Reason.NO_UPDATES, 3)


def test_a_loss_that_is_not_finite_with_gradients_that_are_advances_nothing(train):
    """Growth after two good windows. The second has no loss: were it counted as a good one, the
    scale would grow there and the third would start a new row."""
    model = Planted([1.0], [[1.0], [1.0]], without_loss=[2])
    scaler = scaler_at(8.0, growth_interval=2)
    run, seen = train(model, [1, 2, 1], scaler, rate=0.5)
    assert [update.skip for update in run.updates] == [None, Skip.NONFINITE_LOSS, None]
    assert seen == [(8, [0.5]), (8, [0.5]), (16, [0.0])]
    assert [update.updates for update in run.updates] == [1, 1, 2]


def test_a_norm_that_overflows_though_no_gradient_does_is_no_overflow_of_the_scaler(train):
    """(3e38, 3e38) at scale 1: both finite, their norm 4.2e38 is not. The row goes on after it."""
    model = Planted([1.0, 1.0], [[1.0, 1.0], [3e38, 3e38]])
    scaler = scaler_at(1.0, growth_interval=2)
    run, seen = train(model, [1, 2, 1], scaler, rate=0.5)
    assert [update.skip for update in run.updates] == [None, Skip.NONFINITE_GRADIENT, None]
    assert [scale for scale, _ in seen] == [1, 1, 2]


def test_a_loss_that_is_not_finite_with_a_gradient_that_is_not_either_lowers_the_scale(build):
    """The loss is what is named; the scale follows torch's rule."""
    model = Planted([1.0], [[INF], [1.0]], without_loss=[2])
    windows = build.windows_of([build.costing(1, 2)], [1])
    scaler = scaler_at(8.0)
    run = build.run(model, windows, scaler=scaler, stop=PATIENT)
    assert run.updates[0].skip is Skip.NONFINITE_LOSS
    assert scaler.get_scale() == 4.0


def test_a_window_without_targets_leaves_the_scale_and_its_row_alone(build):
    """Good, empty, good: two in a row, so the scale has grown once by the end."""
    silent = build.example([0, 0], targets=[])
    windows = build.windows_of([build.costing(1), silent, build.costing(1)], [1, 1, 1])
    scaler = scaler_at(8.0, growth_interval=2)
    build.run(Planted([1.0], [[1.0]]), windows, scaler=scaler)
    assert scaler.state_dict()["scale"] == 16.0


def test_a_disabled_scaler_is_left_alone():
    finish_window(GradScaler("cpu", enabled=False), ran=False, overflowed=False)


# --- going on -----------------------------------------------------------------------------------


def test_scale_and_row_come_back_from_a_checkpoint(build, tmp_path, train):
    """PolymathicAI/the_well #77: saved at scale 8 and one good window of two, the next good one
    makes it 16. A new scaler would begin at 65536, one without the row would stay at 8."""
    model, scaler = Planted([1.0], [[1.0]]), scaler_at(8.0, growth_interval=2)
    keeping = Keeping(folder=tmp_path, every_windows=1, owner={})
    train(model, [1], scaler, rate=0.5, keeping=keeping)
    found = read_checkpoint(tmp_path / "checkpoints" / "00000001")
    assert found.snapshot.facts["scaler"]["scale"] == 8.0
    assert found.snapshot.facts["scaler"]["_growth_tracker"] == 1

    windows = build.windows_of([build.costing(1)] * 2, [1, 1])
    again = scaler_at(65536.0)
    run = build.run(
        Planted([0.0], [[1.0]]),
        windows[1:],
        planned=build.planned(windows),
        scaler=again,
        resume=found.snapshot,
    )
    assert [update.loss_scale for update in run.updates] == [8]
    assert again.get_scale() == 16.0
