"""Findings from hand-made rows; each right answer is worked out beside it."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason, Skip
from sweeper.report.case import Case, Score, WindowFacts
from sweeper.report.symptoms import (
    SYMPTOMS,
    Symptom,
    flat_loss,
    frequent_clipping,
    loss_spike,
    nonfinite,
    retention_damage,
    rising_loss,
    scaler_overflows,
    stalled_updates,
    throughput_collapse,
    zero_targets,
)


def window(number, **changes):
    """A healthy window: 100 tokens a second."""
    facts = {
        "window": number,
        "target_tokens": 50,
        "tokens": 100,
        "learning_rate": 0.001,
        "loss": 2.0,
        "gradient_norm": 0.5,
        "is_nonfinite": False,
        "clipped": False,
        "ran": True,
        "skip": None,
        "seconds": 1.0,
    }
    return WindowFacts(**facts | changes)


def skipped(number, skip, **changes):
    return window(number, ran=False, skip=skip, **changes)


def bad(number, skip=Skip.NONFINITE_LOSS):
    return skipped(number, skip, loss=None, is_nonfinite=True)


def with_losses(*losses):
    return [window(number, loss=loss) for number, loss in enumerate(losses, start=1)]


def scores(*losses, windows_apart=10):
    """Evaluations every so many windows, each of which had an update."""
    return [
        Score(index=i, window=i * windows_apart, updates=i * windows_apart, loss=loss)
        for i, loss in enumerate(losses)
    ]


def case(windows=(), **changes):
    return Case(**{"windows": windows, "retention_margin": 0.1, "clip_norm": 1.0} | changes)


HEALTHY = case(
    [window(n, loss=3.0 - 0.02 * n + (0.1 if n % 2 else -0.1)) for n in range(1, 51)],
    validation=scores(3.0, 2.8, 2.6, 2.4, 2.2, 2.05),
    retention=scores(2.0, 2.01, 2.0, 2.03, 2.05, 2.05),
    reason=Reason.BUDGET_REACHED,
)
"""Fifty windows whose losses fall and scatter by a tenth."""


@pytest.mark.parametrize(("symptom", "look"), SYMPTOMS, ids=[s for s, _ in SYMPTOMS])
def test_a_healthy_trial_has_no_finding(symptom, look):
    assert look(HEALTHY) is None


@pytest.mark.parametrize(("symptom", "look"), SYMPTOMS, ids=[s for s, _ in SYMPTOMS])
def test_a_trial_without_a_window_has_no_finding(symptom, look):
    assert look(case()) is None


def test_every_symptom_is_looked_for_once():
    assert [symptom for symptom, _ in SYMPTOMS] == list(Symptom)


# --- loss ---------------------------------------------------------------------------------------


def test_a_spike_is_told_with_its_height_above_the_median_before():
    """Before window 5: 2.0, 2.2, 2.1, 2.0; median 2.05, deviations .05 .15 .05 .05, so the spread
    is 1.4826 x .05 = .0741, six of which are .4448, less than half a nat. 5.05 is 3.0 above.
    """
    found = loss_spike(case(with_losses(2.0, 2.2, 2.1, 2.0, 5.05, 2.0)))

    assert found.sentence == (
        "the loss of window 5 was 5.0500, 3.0000 above the median of up to 16 windows before"
    )
    assert (found.first_window, found.last_window) == (5, 5)
    assert found.numbers["above_median"] == pytest.approx(3.0)


@pytest.mark.parametrize(("loss", "is_spike"), [(2.5, False), (2.51, True)])
def test_in_quiet_windows_a_spike_is_more_than_half_a_nat(loss, is_spike):
    found = loss_spike(case(with_losses(2.0, 2.0, 2.0, 2.0, loss)))

    assert (found is not None) is is_spike


@pytest.mark.parametrize(("loss", "is_spike"), [(11.8, False), (12.0, True)])
def test_in_restless_windows_it_is_more_than_six_spreads(loss, is_spike):
    """1, 2, 3, 4, 5: median 3, deviations 2 1 0 1 2, spread 1.4826; 3 + 6 x 1.4826 = 11.8956."""
    found = loss_spike(case(with_losses(1.0, 2.0, 3.0, 4.0, 5.0, loss)))

    assert (found is not None) is is_spike


def test_two_windows_before_are_too_few_to_know_what_is_usual():
    assert loss_spike(case(with_losses(2.0, 2.0, 9.0))) is None


def test_only_the_sixteen_windows_before_count():
    """Windows 1 to 17 cost 9 nats, 18 to 33 two: at window 34 the median is 2, and 4 is a spike."""
    found = loss_spike(case(with_losses(*[9.0] * 17, *[2.0] * 16, 4.0)))

    assert found.first_window == 34


def test_several_spikes_are_counted_and_the_highest_is_told():
    found = loss_spike(case(with_losses(2.0, 2.0, 2.0, 2.0, 4.0, 2.0, 8.0, 2.0)))

    assert found.sentence.startswith("the loss of window 7 was 8.0000, 6.0000 above")
    assert found.sentence.endswith("; 2 windows between 5 and 7 stood out so")
    assert found.numbers["windows"] == 2


def test_a_window_whose_loss_is_not_known_is_passed_over():
    windows = [*with_losses(2.0, 2.0, 2.0), bad(4), window(5, loss=6.0)]

    assert loss_spike(case(windows)).first_window == 5


def test_a_rising_loss_is_told_from_its_lowest_point():
    found = rising_loss(case(validation=scores(3.0, 2.0, 2.5, 4.0)))

    assert found.sentence == (
        "the validation loss rose from 2.0000 after window 10 to 4.0000 after window 30"
    )
    assert (found.first_window, found.last_window) == (11, 30)
    assert found.numbers == {"lowest": 2.0, "final": 4.0, "initial": 3.0}


def test_a_loss_that_rises_from_the_start_says_so():
    found = rising_loss(case(validation=scores(5.5, 15.3)))

    assert found.sentence == (
        "the validation loss rose from 5.5000 before the first update to 15.3000 after window 10"
    )
    assert found.first_window == 1


@pytest.mark.parametrize(("final", "is_found"), [(2.09, False), (2.11, True)])
def test_a_rise_of_a_tenth_of_a_nat_is_no_rise_yet(final, is_found):
    assert (rising_loss(case(validation=scores(3.0, 2.0, final))) is not None) is is_found


def test_a_loss_that_has_come_down_again_does_not_rise():
    assert rising_loss(case(validation=scores(3.0, 2.0, 9.0, 2.05))) is None


def test_a_flat_loss_is_told_with_its_span():
    """0.5 % of 4 is 0.02; 4.00 to 4.01 stays within."""
    found = flat_loss(case(validation=scores(4.0, 4.01, 4.005)))

    assert found.sentence == (
        "the validation loss stayed between 4.0000 and 4.0100 over 20 updates, within 0.5% of the"
        " initial one"
    )


@pytest.mark.parametrize(
    "validation",
    [scores(4.0, 4.03, 3.99), scores(4.0, 3.98), scores(4.0, 4.0, windows_apart=9), scores(4.0)],
    ids=["wider", "exactly that wide", "nine updates", "one evaluation"],
)
def test_what_moved_or_had_no_time_to_move_is_not_flat(validation):
    assert flat_loss(case(validation=validation)) is None


# --- windows without an update ------------------------------------------------------------------


def test_nonfinite_windows_are_placed():
    found = nonfinite(case([window(1), window(2), bad(3), bad(4)]))

    assert found.sentence == ("the loss was not finite in windows 3 to 4, so no update was made")
    assert (found.first_window, found.last_window) == (3, 4)


def test_a_nonfinite_gradient_is_told_as_such():
    found = nonfinite(case([window(1), bad(2, Skip.NONFINITE_GRADIENT)]))

    assert found.sentence.startswith("the gradient norm was not finite in window 2,")


def test_a_nonfinite_evaluation_is_one_too():
    found = nonfinite(case([window(1)], validation=scores(3.0, None)))

    assert found.sentence == "the evaluation after window 10 was not finite"


def test_float16_overflows_are_no_nonfinite_windows():
    overflows = [bad(n, Skip.SCALER_OVERFLOW) for n in (1, 2)]

    assert nonfinite(case([*overflows, *map(window, range(3, 40))])) is None


@pytest.mark.parametrize(
    ("overflows", "windows", "is_found"),
    [(2, 4, False), (3, 60, False), (3, 59, True), (20, 20, True)],
)
def test_overflows_are_a_symptom_when_they_are_three_and_more_than_one_in_twenty(
    overflows, windows, is_found
):
    """3 of 60 are 5 %, 3 of 59 are 5.08 %."""
    rows = [bad(n, Skip.SCALER_OVERFLOW) for n in range(1, overflows + 1)]
    rows += [window(n) for n in range(overflows + 1, windows + 1)]

    assert (scaler_overflows(case(rows)) is not None) is is_found


def test_overflows_say_how_many_of_how_many():
    rows = [bad(n, Skip.SCALER_OVERFLOW) for n in (1, 2, 3)] + [window(4)]

    assert scaler_overflows(case(rows)).sentence == (
        "scaled gradients overflowed in 3 of 4 windows, which were read but not applied"
    )


def test_windows_without_targets_are_placed():
    empty = [skipped(n, Skip.NO_TARGETS, target_tokens=0, loss=None) for n in (2, 5)]

    found = zero_targets(case([window(1), empty[0], window(3), window(4), empty[1]]))

    assert found.sentence == (
        "2 windows between 2 and 5 held no target token, so no update was made"
    )


# --- updates that move nothing, or too little ---------------------------------------------------


def test_a_trial_that_was_stopped_for_it_is_stalled():
    found = stalled_updates(case([window(1), window(2)], reason=Reason.STALLED_UPDATES))

    assert found.sentence == ("the trial was stopped because its updates moved no trainable weight")
    assert found.last_window == 2


def test_three_gradients_of_exactly_zero_in_a_row_are_stalled():
    rows = [window(n, gradient_norm=0.0 if n in {1, 4, 5, 6} else 0.5) for n in range(1, 8)]

    found = stalled_updates(case(rows))

    assert found.sentence == ("the gradient was exactly zero in windows 4 to 6, though updates ran")


def test_two_of_them_are_not():
    rows = [window(n, gradient_norm=0.0 if n in {4, 5} else 0.5) for n in range(1, 8)]

    assert stalled_updates(case(rows)) is None


def test_a_validation_loss_that_is_the_same_to_the_bit_is_stalled():
    found = stalled_updates(case(validation=scores(3.0, 2.5, 2.5)))

    assert found.sentence == (
        "the validation loss after window 20 is to the last bit that after window 10, with 10"
        " updates in between"
    )
    assert (found.first_window, found.last_window) == (11, 20)


def test_without_an_update_in_between_it_is_not():
    first, second = scores(2.5, 2.5)

    still = dataclasses.replace(second, updates=0)

    assert stalled_updates(case(validation=[first, still])) is None


def test_frequent_clipping_is_told_with_the_median_norm():
    """Norms of windows 1 to 8 are 1 to 8: five of eight are above 3, and the median is 4.5."""
    rows = [window(n, gradient_norm=float(n), clipped=n > 3) for n in range(1, 9)]

    found = frequent_clipping(case(rows, clip_norm=3.0))

    assert found.sentence == (
        "5 of 8 updates (62%) were clipped to a norm of 3; the median norm before was 4.5"
    )
    assert found.numbers["median_norm"] == 4.5


@pytest.mark.parametrize(("clipped", "of"), [(2, 8), (5, 20), (7, 7)])
def test_a_quarter_of_the_updates_or_too_few_of_them_are_no_symptom(clipped, of):
    rows = [window(n, clipped=n <= clipped) for n in range(1, of + 1)]

    assert frequent_clipping(case(rows)) is None


# --- retention and throughput -------------------------------------------------------------------


@pytest.mark.parametrize(("final", "is_found"), [(2.1, False), (2.25, True), (1.0, False)])
def test_retention_is_damaged_when_it_rose_by_more_than_was_agreed(final, is_found):
    found = retention_damage(case(retention=scores(2.0, 2.5, final), retention_margin=0.125))

    assert (found is not None) is is_found


def test_the_damage_is_told_with_what_was_allowed():
    found = retention_damage(case(retention=scores(2.0, 2.5), retention_margin=0.125))

    assert found.sentence == (
        "the retention loss rose from 2.0000 to 2.5000 after window 10: 0.5000, with 0.125 allowed"
    )


def test_a_collapse_is_told_with_both_speeds():
    """100 tokens in 1 s, then in 4 s from window 8 on."""
    rows = [window(n, seconds=4.0 if n >= 8 else 1.0) for n in range(1, 12)]

    found = throughput_collapse(case(rows))

    assert found.sentence == (
        "windows 8 to 11 ran at 25 tokens per second in the median, those before at 100"
    )
    assert (found.first_window, found.last_window) == (8, 11)


@pytest.mark.parametrize(
    "slow",
    [
        {8: 4.0, 9: 4.0},
        {8: 4.0, 9: 4.0, 11: 4.0, 12: 4.0},
        {8: 2.0, 9: 2.0, 10: 2.0},
        {1: 4.0, 2: 4.0, 3: 4.0},
    ],
    ids=["two windows", "two rows of two", "half the speed", "at the start"],
)
def test_less_than_three_slow_windows_in_a_row_are_no_collapse(slow):
    rows = [window(n, seconds=slow.get(n, 1.0)) for n in range(1, 15)]

    assert throughput_collapse(case(rows)) is None


def test_longer_records_take_longer_without_being_slower():
    rows = [
        window(n, tokens=1000 if n > 6 else 100, seconds=10.0 if n > 6 else 1.0)
        for n in range(1, 15)
    ]

    assert throughput_collapse(case(rows)) is None
