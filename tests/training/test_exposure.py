"""Counts of what was read and what was applied."""

from sweeper.training.exposure import Exposure, Planned


def test_a_skipped_window_is_read_but_not_applied(build):
    first, second = build.windows_of(
        [build.example([1, 2, 3]), build.example([1, 2])], sizes=[1, 1]
    )
    exposure = Exposure().after(first, ran=True).after(second, ran=False)
    assert exposure == Exposure(windows=2, updates=1, target_tokens_read=3, target_tokens_applied=2)


def test_reading_as_planned_is_no_mismatch():
    planned = Planned(windows=2, target_tokens=30, last_window_target_tokens=10)
    assert Exposure(windows=2, updates=1, target_tokens_read=30).mismatch(planned) is None


def test_a_mismatch_names_both_counts():
    planned = Planned(windows=3, target_tokens=30, last_window_target_tokens=10)
    assert Exposure(windows=2, updates=2, target_tokens_read=20).mismatch(planned) == (
        "Read 20 target tokens in 2 windows; the plan says 30 in 3."
    )
