"""Each stop condition fires at exactly its window, with the numbers behind it."""

import dataclasses
import math

import pytest

from sweeper.records import Evaluation, Reason, Skip, Update
from sweeper.training.stopping import Diverged, Nonfinite, NoUpdates, Stalled, StopOptions
from sweeper.training.watch import Watch

UPDATE = Update(
    window=1,
    updates=1,
    first_record=0,
    records=1,
    record_digest="0",
    target_tokens=10,
    target_tokens_read=10,
    target_tokens_applied=10,
    input_tokens=12,
    padding_tokens=0,
    learning_rate=0.01,
    loss=4.0,
    gradient_norm=1.5,
    clipped=False,
    ran=True,
    skip=None,
    seconds=1.0,
    peak_memory_bytes=1,
)

GOOD = {}
LOSS_NAN = {"ran": False, "skip": Skip.NONFINITE_LOSS, "loss": math.nan}
NORM_INF = {"ran": False, "skip": Skip.NONFINITE_GRADIENT, "gradient_norm": math.inf}
EMPTY = {"ran": False, "skip": Skip.NO_TARGETS, "loss": None, "gradient_norm": None}
OVERFLOW = {"ran": False, "skip": Skip.SCALER_OVERFLOW}
UNMOVED = {"moved": False}
RATE_ZERO = {"moved": False, "learning_rate": 0.0}

NEVER = StopOptions(
    nonfinite=Nonfinite(loss=99, gradient=99),
    no_updates=NoUpdates(windows=99),
    stalled=Stalled(updates=99),
)


def feed(options, windows):
    """Returns the window at which a stop came and the stop; (None, None) when none came."""
    watch = Watch(options)
    updates = 0
    for window, changes in enumerate(windows, start=1):
        moved = changes.get("moved", True)
        fields = {name: value for name, value in changes.items() if name != "moved"}
        update = dataclasses.replace(
            UPDATE, window=window, target_tokens_read=10 * window, **fields
        )
        updates += update.ran
        update = dataclasses.replace(update, updates=updates)
        stop = watch.after_window(update, moved=moved)
        if stop is not None:
            return window, stop
    return None, None


def limited(**changes):
    return NEVER.model_copy(update=changes)


@pytest.mark.parametrize(
    ("limit", "windows", "at"),
    [
        (1, [GOOD, LOSS_NAN], 2),
        (2, [LOSS_NAN, GOOD, LOSS_NAN, LOSS_NAN], 4),
        (2, [LOSS_NAN, EMPTY, LOSS_NAN, NORM_INF, LOSS_NAN], None),
        (3, [LOSS_NAN, LOSS_NAN], None),
    ],
)
def test_nonfinite_losses_stop_after_so_many_windows_in_a_row(limit, windows, at):
    found, stop = feed(limited(nonfinite=Nonfinite(loss=limit, gradient=99)), windows)
    assert found == at
    assert stop is None or stop.reason is Reason.NONFINITE_LOSS


@pytest.mark.parametrize(
    ("limit", "windows", "at"),
    [
        (1, [GOOD, GOOD, NORM_INF], 3),
        (2, [NORM_INF, GOOD, NORM_INF, NORM_INF], 4),
        (2, [NORM_INF, LOSS_NAN, NORM_INF], None),
    ],
)
def test_nonfinite_gradients_stop_after_so_many_windows_in_a_row(limit, windows, at):
    found, stop = feed(limited(nonfinite=Nonfinite(loss=99, gradient=limit)), windows)
    assert found == at
    assert stop is None or stop.reason is Reason.NONFINITE_GRADIENT


@pytest.mark.parametrize(
    ("windows", "at"),
    [
        ([GOOD, EMPTY, EMPTY, EMPTY], 4),
        ([EMPTY, EMPTY, GOOD, EMPTY, EMPTY], None),
        ([LOSS_NAN, EMPTY, OVERFLOW], 3),
    ],
)
def test_windows_without_an_update_stop_whatever_their_causes(windows, at):
    found, stop = feed(limited(no_updates=NoUpdates(windows=3)), windows)
    assert found == at
    assert stop is None or stop.reason is Reason.NO_UPDATES


@pytest.mark.parametrize(
    ("windows", "at"),
    [
        ([UNMOVED, UNMOVED, UNMOVED], 3),
        ([UNMOVED, UNMOVED, GOOD, UNMOVED, UNMOVED, UNMOVED], 6),
        ([UNMOVED, EMPTY, UNMOVED, OVERFLOW, UNMOVED], 5),
        ([OVERFLOW, OVERFLOW, OVERFLOW, OVERFLOW], None),
        ([RATE_ZERO, RATE_ZERO, RATE_ZERO, RATE_ZERO], None),
        ([UNMOVED, RATE_ZERO, UNMOVED, UNMOVED], 4),
    ],
)
def test_updates_that_move_nothing_stop_but_skips_and_a_rate_of_zero_do_not_count(windows, at):
    found, stop = feed(limited(stalled=Stalled(updates=3)), windows)
    assert found == at
    assert stop is None or stop.reason is Reason.STALLED_UPDATES


def test_a_stop_carries_where_it_happened_and_the_last_finite_loss():
    _, stop = feed(StopOptions(), [GOOD, {"loss": 3.25}, LOSS_NAN])
    assert (stop.window, stop.updates, stop.target_tokens_read) == (3, 2, 30)
    assert stop.last_finite_loss == 3.25


def test_without_any_finite_loss_there_is_no_last_one():
    _, stop = feed(StopOptions(), [LOSS_NAN])
    assert stop.last_finite_loss is None
    assert "no window before it had a finite loss" in stop.detail


LOSS_DETAIL = (
    "The loss of window 2 was nan (windows in a row: 1, agreed limit: 1); the last finite loss was"
    " 4 nats per target token in window 1."
)
GRADIENT_DETAIL = (
    "The gradient norm of window 2 was inf (windows in a row: 1, agreed limit: 1); the last finite"
    " loss was 4 nats per target token in window 2."
)
NO_UPDATES_DETAIL = (
    "Windows 2 to 3 ended in no update (windows in a row: 2, agreed limit: 2), the last one because"
    " of no_targets; the last finite loss was 4 nats per target token in window 2."
)
STALLED_DETAIL = (
    "2 updates in a row ran without moving any trainable weight (agreed limit: 2), the last one"
    " being update 2 at rate 0.01 with gradient norm 1.5; the last finite loss was 4 nats per"
    " target token in window 2."
)


@pytest.mark.parametrize(
    ("options", "windows", "detail"),
    [
        (StopOptions(), [GOOD, LOSS_NAN], LOSS_DETAIL),
        (StopOptions(), [GOOD, NORM_INF], GRADIENT_DETAIL),
        (limited(no_updates=NoUpdates(windows=2)), [GOOD, OVERFLOW, EMPTY], NO_UPDATES_DETAIL),
        (limited(stalled=Stalled(updates=2)), [UNMOVED, UNMOVED], STALLED_DETAIL),
    ],
)
def test_the_detail_is_a_sentence_with_the_numbers(options, windows, detail):
    _, stop = feed(options, windows)
    assert stop.detail == detail


def evaluated(loss, index, split="validation"):
    return Evaluation(
        split=split,
        index=index,
        window=0,
        target_tokens_read=0,
        updates=0,
        loss=loss,
        target_tokens=10,
        records=2,
        set_digest="0",
        dtype="float32",
        micro_batch=2,
        seconds=1.0,
    )


def feed_evaluations(losses, **limits):
    watch = Watch(StopOptions(diverged=Diverged(**limits)))
    stops = [watch.after_evaluation(evaluated(x, index)) for index, x in enumerate(losses)]
    return [index for index, stop in enumerate(stops) if stop is not None], stops[-1]


@pytest.mark.parametrize(
    ("losses", "fired"),
    [
        ([4.0, 5.1, 5.2], [2]),
        ([4.0, 5.1, 4.9, 5.1], []),
        ([4.0, 5.0, 5.0], []),
        ([4.0, 3.0, 4.5, 4.6], []),
    ],
)
def test_two_validation_losses_in_a_row_a_nat_above_the_initial_one_are_divergence(losses, fired):
    found, _ = feed_evaluations(losses, nats_above_initial=1.0, evaluations=2)
    assert found == fired


def test_divergence_says_how_far_above_which_loss():
    _, stop = feed_evaluations([4.0, 5.5], nats_above_initial=1.0, evaluations=1)
    assert stop.reason is Reason.DIVERGED
    assert stop.detail == (
        "The validation loss was 5.5 at evaluation 1, more than 1.0 above the initial 4"
        " (evaluations in a row: 1, agreed limit: 1)."
    )


def test_retention_losses_are_no_sign_of_divergence():
    watch = Watch(StopOptions(diverged=Diverged(evaluations=1)))
    watch.after_evaluation(evaluated(4.0, 0))
    assert watch.after_evaluation(evaluated(9.0, 1, split="retention")) is None


@pytest.mark.parametrize("split", ["validation", "retention"])
def test_a_held_out_loss_that_is_not_finite_stops_at_once(split):
    stop = Watch(StopOptions()).after_evaluation(evaluated(math.nan, 3, split=split))
    assert stop.reason is Reason.NONFINITE_LOSS
    assert stop.detail.startswith(f"The {split} loss was nan at evaluation 3; ")


def test_weights_that_are_not_finite_stop_by_name():
    stop = Watch(StopOptions()).after_parameters(["layer.weight", "layer.bias"])
    assert stop.reason is Reason.NONFINITE_PARAMETER
    assert stop.detail.startswith("2 trainable tensors hold values that are not finite")
    assert "the first being layer.weight" in stop.detail


def test_finite_weights_stop_nothing():
    assert Watch(StopOptions()).after_parameters([]) is None
