"""Bugs of other trainers that the arithmetic of the loop could have: each with its right value.

A docstring names the report, the input in our terms, and what the bug makes of it. Token 0 after
token k costs exactly as many nats as a test's table says, and in a table of zeros over two tokens
the gradient of a row is (-1/2, 1/2) per target, so that everything can be worked by hand.
"""

import math

import pytest
import torch

from sweeper.records import Reason, Skip
from sweeper.training.evaluation import held_out_loss
from sweeper.training.loss import Objective
from sweeper.training.options import ScheduleOptions, SgdOptions, Warmup
from sweeper.training.stopping import Nonfinite, NoUpdates, StopOptions

HALF_ROOT = math.sqrt(1 / 2)
"""The norm of (-1/2, 1/2)."""


@pytest.fixture
def one_window(build):
    """Runs the loop over one window, on a table in which each token has its cost."""

    def run(losses, examples, micro_batch=1):
        model = build.Bigram(build.table_with_losses(losses))
        windows = build.windows_of(examples, [len(examples)])
        (update,) = build.run(model, windows, micro_batch=micro_batch).updates
        return update

    return run


@pytest.fixture
def rows_moved(build):
    """Returns by how much each row of a table of zeros is moved by SGD at rate 1, window by window.

    A window takes its gradients in micro-batches of one record.
    """

    def run(examples, sizes, scale=1.0):
        model = build.Bigram(torch.zeros(2, 2, dtype=torch.float64), scale=scale)
        options = build.training_options(1.0, optimizer=SgdOptions(kind="sgd"))
        build.run(model, build.windows_of(examples, sizes), options=options, micro_batch=1)
        return model.table.detach().tolist()

    return run


# --- accumulation -------------------------------------------------------------------------------


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 8])
def test_accumulating_more_does_not_raise_the_loss(micro_batch, build, one_window):
    """huggingface/transformers #37766: eight equal records at 2 nats, in 8 to 1 micro-batches,
    cost 2 and not 2 for each."""
    update = one_window([2.0], [build.costing(0)] * 8, micro_batch)
    assert update.loss == pytest.approx(2.0, rel=1e-12)


def test_two_micro_batches_do_not_double_the_loss(build, one_window):
    """huggingface/transformers PR #35438: two micro-batches at 4 nats are 4, not 8."""
    update = one_window([4.0], [build.costing(0), build.costing(0)])
    assert update.loss == pytest.approx(4.0, rel=1e-12)


def test_four_equal_micro_batches_have_the_gradient_of_one(build):
    """MakazhanAlpamys/Soup #720: the norm is that of one record, 0.7071, and not four times it."""
    model = build.Bigram(torch.zeros(2, 2, dtype=torch.float64))
    windows = build.windows_of([build.costing(0)] * 4, [4])
    (update,) = build.run(model, windows, micro_batch=1).updates
    assert update.gradient_norm == pytest.approx(HALF_ROOT, rel=1e-12)


def test_micro_batches_of_three_targets_and_one_share_one_divisor(build, rows_moved):
    """huggingface/transformers #35203: with 3 targets after token 0 and 1 after token 1, rows move
    by 3/4 and 1/4 of a gradient. A divisor for each micro-batch would give 1/2 and 1/2, and the
    report's own counts 1 and 1. It is a matter of what one update means: here, the mean over the
    window's targets."""
    zero, one = rows_moved([build.costing(0, 0, 0), build.costing(1)], [2])
    assert zero == pytest.approx([3 / 8, -3 / 8], rel=1e-12)
    assert one == pytest.approx([1 / 8, -1 / 8], rel=1e-12)


def test_a_last_window_of_one_micro_batch_is_not_divided_by_four(build, rows_moved):
    """Lightning-AI/pytorch-lightning #19987: four micro-batches to a window, one in the last, its
    gradient 1: the update is 1, not 1/4."""
    examples = [build.costing(0)] * 4 + [build.costing(1)]
    _, last = rows_moved(examples, [4, 1], scale=2.0)
    assert last == pytest.approx([1.0, -1.0], rel=1e-12)


def test_a_last_window_of_two_micro_batches_is_halved_not_quartered(build, rows_moved):
    """modelscope/ms-swift PR #10084: four micro-batches to a window, two in the last, of which one
    is about token 1 with gradient 1: its part is 1/2, not 1/4."""
    examples = [build.costing(0)] * 4 + [build.costing(0), build.costing(1)]
    _, last = rows_moved(examples, [4, 2], scale=2.0)
    assert last == pytest.approx([0.5, -0.5], rel=1e-12)


def test_a_micro_batch_without_targets_does_not_spoil_the_window(build, one_window):
    """karpathy/nanochat #618: none and 3 targets that add up to 6 cost 6 / 3 = 2; the mean of the
    empty one would be 0 / 0."""
    examples = [build.example([0, 0], targets=[]), build.costing(0, 1, 2)]
    update = one_window([1.0, 2.0, 3.0], examples)
    assert update.loss == pytest.approx(2.0, rel=1e-12)
    assert math.isfinite(update.gradient_norm)


# --- what is not a number -----------------------------------------------------------------------


def patient():
    return StopOptions(nonfinite=Nonfinite(loss=99, gradient=99), no_updates=NoUpdates(windows=99))


@pytest.fixture
def with_a_nan(build):
    """Windows that cost 4 nats each, but the one at `place` is not a number, were it ever run."""

    def run(windows, place, **changes):
        table = build.table_with_losses([4.0, 1.0], dtype=torch.float32) / 10
        table[1] = 3e38
        costs = [build.costing(0)] * windows
        costs[place - 1] = build.costing(1)
        return build.run(
            build.Bigram(table, scale=10.0),
            build.windows_of(costs, [1] * windows),
            options=build.training_options(1e-9),
            **changes,
        )

    return run


def test_a_loss_that_is_not_a_number_is_on_record_and_ends_the_trial(with_a_nan):
    """huggingface/trl #6702: of 4, NaN, 4 the second is reported as NaN, and no third is run."""
    run = with_a_nan(windows=3, place=2)
    assert run.losses == [pytest.approx(4.0, rel=1e-5), pytest.approx(math.nan, nan_ok=True)]
    assert run.outcome.reason is Reason.NONFINITE_LOSS
    assert run.stop.last_finite_loss == pytest.approx(4.0, rel=1e-5)


def test_no_mean_of_earlier_losses_stands_in_for_one_that_is_not_a_number(with_a_nan):
    """huggingface/transformers #13758: after losses that add up to 6 in 2 steps the filter was to
    add 6 / 3, and added 6 / 1 + 2. Nothing is added here: each window has its own loss, and the
    NaN is one."""
    run = with_a_nan(windows=4, place=3, stop=patient())
    four = pytest.approx(4.0, rel=1e-5)
    assert run.losses == [four, four, pytest.approx(math.nan, nan_ok=True), four]


def test_one_window_of_four_without_a_finite_loss_can_be_counted(with_a_nan):
    """huggingface/trl PR #6771: the share of nonfinite losses is 1/4; here each names itself."""
    run = with_a_nan(windows=4, place=3, stop=patient())
    assert [update.skip for update in run.updates] == [None, None, Skip.NONFINITE_LOSS, None]
    assert run.updates[-1].updates == 3


def test_a_window_whose_labels_are_all_masked_has_no_loss_rather_than_one_of_zero(build):
    """huggingface/trl #6668: a prompt of 10 that is cut at 8 leaves no label. Such records are
    dropped before the plan; were one to come all the same, its window would have no loss."""
    cut = build.example([1] * 8, targets=[])
    model = build.Bigram(torch.zeros(2, 2))
    (update,) = build.run(model, build.windows_of([cut], [1])).updates
    assert (update.loss, update.target_tokens, update.ran) == (None, 0, False)
    assert update.skip is Skip.NO_TARGETS


# --- the rate -----------------------------------------------------------------------------------


def test_the_first_rate_of_a_warmup_is_not_zero(build):
    """google-research/bert #1293: with W = 4 the first update has a quarter of the rate."""
    schedule = ScheduleOptions(kind="constant", warmup=Warmup(updates=4))
    options = build.training_options(0.8, schedule=schedule, optimizer=SgdOptions(kind="sgd"))
    windows = build.windows_of([build.costing(0)] * 5, [1] * 5)
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, options=options)
    rates = [update.learning_rate for update in run.updates]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8], rel=1e-12)


# --- evaluation ---------------------------------------------------------------------------------


@pytest.fixture
def evaluated(build):
    def loss(losses, examples, micro_batch):
        model = build.Bigram(build.table_with_losses(losses))
        found, _ = held_out_loss(
            model,
            Objective(model, "float64"),
            build.held_out(examples),
            micro_batch=micro_batch,
            pad_token_id=0,
        )
        return found

    return loss


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_the_held_out_loss_does_not_depend_on_the_batch_size(micro_batch, build, evaluated):
    """huggingface/transformers #39241 and #24839: a batch of 5 targets that add up to 10 and one of
    1 target at 8 are 18 / 6 = 3, and not the mean of 2 and 8."""
    examples = [build.costing(0, 0, 0, 0, 0), build.costing(1)]
    assert evaluated([2.0, 8.0], examples, micro_batch) == pytest.approx(3.0, rel=1e-12)


def test_a_smaller_last_batch_has_no_more_weight_than_its_records(build, evaluated):
    """huggingface/transformers #16716 and #41898: four records at 1 nat, then one at 5, in batches
    of four: 9 / 5 = 1.8, and not the mean of 1 and 5."""
    examples = [build.costing(0)] * 4 + [build.costing(1)]
    assert evaluated([1.0, 5.0], examples, 4) == pytest.approx(1.8, rel=1e-12)


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_the_loop_reports_the_held_out_loss_of_tokens_not_of_batches(micro_batch, build):
    """The same reports, seen from the loop: 3.0 before the first update, on record."""
    examples = [build.costing(0, 0, 0, 0, 0), build.costing(1)]
    model = build.Bigram(build.table_with_losses([2.0, 8.0]))
    windows = build.windows_of([build.costing(0)], [1])
    run = build.run(model, windows, held_out=[build.held_out(examples)], micro_batch=micro_batch)
    assert run.evaluations[0].loss == pytest.approx(3.0, rel=1e-12)
