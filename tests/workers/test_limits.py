from __future__ import annotations

import pytest

from sweeper.records import Phase
from sweeper.study.run_options import Limits
from sweeper.workers.allowance import trial_limits
from sweeper.workers.limits import (
    TrialLimits,
    device_memory_excess,
    disk_excess,
    host_memory_excess,
    silence_excess,
    wall_clock_excess,
)


def test_the_limits_of_the_study_become_seconds_and_bytes():
    agreed = Limits(
        wall_clock="2h", host_memory="16GiB", device_memory="2KiB", disk="3KiB", hang="90s"
    )

    limits = trial_limits(agreed, used_seconds=12.5, used_disk_bytes=7, needed_disk_bytes=9)

    assert limits == TrialLimits(
        wall_clock_seconds=7200.0,
        used_seconds=12.5,
        host_memory_bytes=17_179_869_184,
        device_memory_bytes=2048,
        disk_bytes=3072,
        used_disk_bytes=7,
        needed_disk_bytes=9,
        hang_seconds=90.0,
    )


def test_without_limits_only_silence_is_bounded():
    assert trial_limits(Limits()) == TrialLimits(hang_seconds=600.0)


def test_limits_cross_a_pipe_unchanged():
    limits = TrialLimits(wall_clock_seconds=1.5, host_memory_bytes=2, hang_seconds=None)

    assert TrialLimits.from_plain(limits.to_plain()) == limits


@pytest.mark.parametrize(("used", "wall", "over"), [(0, 9.9, False), (0, 10, True), (4, 6, True)])
def test_the_wall_clock_runs_through_all_attempts_and_reached_means_over(used, wall, over):
    limits = TrialLimits(wall_clock_seconds=10, used_seconds=used)

    assert bool(wall_clock_excess(limits, wall)) is over


@pytest.mark.parametrize(("held", "over"), [(99, False), (100, True)])
def test_the_memory_limit_is_reached_at_its_value(held, over):
    assert bool(host_memory_excess(TrialLimits(host_memory_bytes=100), held)) is over
    assert bool(device_memory_excess(TrialLimits(device_memory_bytes=100), held)) is over


@pytest.mark.parametrize(("used", "held", "over"), [(0, 99, False), (0, 100, True), (60, 40, True)])
def test_the_limit_on_disk_holds_for_all_attempts_together(used, held, over):
    assert bool(disk_excess(TrialLimits(disk_bytes=100, used_disk_bytes=used), held)) is over


@pytest.mark.parametrize(
    ("phase", "silent", "over"),
    [
        (Phase.TRAINING, 9.9, False),
        (Phase.TRAINING, 10, True),
        (Phase.LOADING, 49.9, False),
        (Phase.LOADING, 50, True),
        (Phase.EVALUATING, 49.9, False),
        (Phase.SAVING, 50, True),
    ],
)
def test_silence_is_allowed_five_times_as_long_outside_training(phase, silent, over):
    assert bool(silence_excess(TrialLimits(hang_seconds=10), silent, phase)) is over


def test_a_limit_that_is_not_set_is_never_reached():
    limits = TrialLimits()

    assert wall_clock_excess(limits, 1e9) is None
    assert host_memory_excess(limits, 1 << 60) is None
    assert device_memory_excess(limits, 1 << 60) is None
    assert disk_excess(limits, 1 << 60) is None
    assert silence_excess(limits, 1e9, Phase.TRAINING) is None


def test_the_sentences_name_limit_and_measurement():
    limits = TrialLimits(wall_clock_seconds=60, used_seconds=20, host_memory_bytes=5)

    assert wall_clock_excess(limits, 40.04) == (
        "wall clock of 60 s reached: 20.0 s in earlier attempts, 40.0 s in this one"
    )
    assert host_memory_excess(limits, 7) == (
        "host memory of 5 bytes reached: the trial's processes hold 7"
    )
    assert device_memory_excess(TrialLimits(device_memory_bytes=5), 7) == (
        "device memory of 5 bytes reached: the trial's processes hold 7"
    )
    assert disk_excess(TrialLimits(disk_bytes=9, used_disk_bytes=4), 6) == (
        "disk of 9 bytes reached: 4 bytes in earlier attempts, 6 in this one"
    )
