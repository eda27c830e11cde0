"""The rate at a count, against values worked by hand from the formula."""

import pytest

from sweeper.errors import PlanError
from sweeper.training.exposure import Planned
from sweeper.training.options import ScheduleOptions, Warmup
from sweeper.training.schedule import count_of, rate, warmup_length


def plan(windows=10, target_tokens=1000, last=100):
    return Planned(
        windows=windows,
        records=4 * windows,
        input_tokens=2 * target_tokens,
        target_tokens=target_tokens,
        last_window_target_tokens=last,
    )


def factors(options, counts, planned):
    return [rate(options, peak=1.0, count=count, planned=planned) for count in counts]


COSINE = [0.5, 1, 0.969846, 0.883022, 0.75, 0.586824, 0.413176, 0.25, 0.116978, 0.030154]
LINEAR = [0.5, 1, 0.888889, 0.777778, 0.666667, 0.555556, 0.444444, 0.333333, 0.222222, 0.111111]


@pytest.mark.parametrize(("kind", "expected"), [("cosine", COSINE), ("linear", LINEAR)])
def test_ten_updates_with_two_of_warmup_end_with_a_rate_above_zero(kind, expected):
    options = ScheduleOptions(kind=kind, warmup=Warmup(updates=2))
    assert factors(options, range(1, 11), plan()) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("update", "expected"), [(1, 3e-6), (50, 1.5e-4), (100, 3e-4), (101, 3e-4)]
)
def test_warmup_starts_at_one_share_of_the_peak_not_at_zero(update, expected):
    options = ScheduleOptions(kind="constant", warmup=Warmup(updates=100))
    found = rate(options, peak=3e-4, count=update, planned=plan(windows=200))
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_factors_of_a_warmup_of_a_hundred_add_up_to_half_a_hundred_and_a_half():
    options = ScheduleOptions(kind="constant", warmup=Warmup(updates=100))
    assert sum(factors(options, range(1, 101), plan(windows=100))) == pytest.approx(50.5)


def test_a_warmup_of_four_gives_a_quarter_at_the_first_update():
    options = ScheduleOptions(kind="constant", warmup=Warmup(updates=4))
    assert factors(options, range(1, 6), plan()) == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_warmup_in_tokens_counts_the_window_being_tried():
    options = ScheduleOptions(
        kind="constant", counter="target_tokens", warmup=Warmup(target_tokens=1000)
    )
    counts = [300, 600, 900, 1200, 1500]
    found = factors(options, counts, plan(target_tokens=1500))
    assert found == pytest.approx([0.3, 0.6, 0.9, 1, 1])


def test_decay_in_tokens_reaches_its_end_one_last_window_after_the_budget():
    """B = 1000, W = 200, n = 100: at c the progress is (c - 200) / 900."""
    options = ScheduleOptions(
        kind="linear", counter="target_tokens", warmup=Warmup(target_tokens=200)
    )
    found = factors(options, [100, 200, 650, 1000], plan())
    assert found == pytest.approx([0.5, 1, 0.5, 1 / 9])


def test_without_warmup_the_decay_begins_at_the_first_update():
    options = ScheduleOptions(kind="linear")
    assert factors(options, [1, 4], plan(windows=4)) == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize(("kind", "expected"), [("linear", 0.55), ("cosine", 0.55)])
def test_final_is_a_floor_in_shares_of_the_peak(kind, expected):
    """Half way (update 5 of 9, progress 1/2): 0.1 + 0.9 / 2."""
    options = ScheduleOptions(kind=kind, final=0.1)
    assert factors(options, [5], plan(windows=9)) == pytest.approx([expected])


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
def test_half_the_peak_halves_every_rate_to_the_bit(kind):
    options = ScheduleOptions(kind=kind, warmup=Warmup(updates=3), final=0.05)
    whole = [rate(options, peak=2e-4, count=t, planned=plan()) for t in range(1, 11)]
    half = [rate(options, peak=1e-4, count=t, planned=plan()) for t in range(1, 11)]
    assert [2 * value for value in half] == whole


def test_a_warmup_longer_than_the_trial_never_reaches_the_peak():
    options = ScheduleOptions(kind="cosine", warmup=Warmup(updates=20))
    assert factors(options, [10], plan(windows=10)) == [0.5]


@pytest.mark.parametrize(
    ("fraction", "windows", "expected"),
    [(0.05, 100, 5), (0.07, 100, 7), (0.05, 101, 6), (0.0, 10, 0), (1e-5, 10, 1)],
)
def test_a_fraction_of_the_windows_is_rounded_up_as_the_decimal_that_was_written(
    fraction, windows, expected
):
    """In floating point 0.07 * 100 is a little above 7 and would round up to 8."""
    options = ScheduleOptions(kind="constant", warmup=Warmup(fraction=fraction))
    assert warmup_length(options, planned=plan(windows=windows)) == expected


def test_a_fraction_is_of_the_budget_where_tokens_are_counted():
    options = ScheduleOptions(
        kind="constant", counter="target_tokens", warmup=Warmup(fraction=0.05)
    )
    assert warmup_length(options, planned=plan(target_tokens=1001)) == 51


@pytest.mark.parametrize(
    ("counter", "warmup"),
    [("updates", Warmup(target_tokens=100)), ("target_tokens", Warmup(updates=5))],
)
def test_a_warmup_in_another_unit_than_the_counter_is_refused(counter, warmup):
    options = ScheduleOptions(kind="constant", counter=counter, warmup=warmup)
    with pytest.raises(PlanError, match=f"Give the warm-up in {counter}"):
        warmup_length(options, planned=plan())


@pytest.mark.parametrize(("counter", "expected"), [("updates", 3), ("target_tokens", 700)])
def test_the_schedule_goes_by_its_own_counter(counter, expected):
    options = ScheduleOptions(kind="constant", counter=counter)
    assert count_of(options, updates=3, target_tokens=700) == expected
