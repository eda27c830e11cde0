from __future__ import annotations

import math

import pytest

from sweeper.records import Reason
from sweeper.selection.statistics import Interval
from sweeper.selection.summaries import capped_losses, summarise


@pytest.fixture
def t04(make_study, cases):
    """Two of double's three seeds ended in a loss that is not a number, or not finite."""
    baseline = cases["T04"]["given"]["baseline"]
    return make_study({"double": [math.nan, 1.70, math.inf], "baseline": baseline})


def test_failures_stay_in_the_summary_of_case_t04(t04, cases):
    summary = summarise(t04, "double")
    expected = cases["T04"]["expect"]

    assert (summary.n_planned, summary.n_completed, summary.n_stopped) == (3, 1, 2)
    assert summary.mean == expected["completed_only_mean"]
    assert summary.sd is None
    assert summary.losses_of == "completed only, 1 of 3"
    assert summary.failure_rate == 2 / 3
    assert summary.reasons == {"budget_reached": 1, "nonfinite_loss": 2}


def test_failures_count_as_the_initial_loss_in_the_capped_mean_of_case_t04(t04, cases):
    summary = summarise(t04, "double")
    expected = cases["T04"]["expect"]
    low, high = expected["failure_rate_cp95"]

    assert capped_losses(t04, "double") == tuple(expected["capped"])
    assert summary.capped_mean == pytest.approx(expected["capped_mean"], abs=1e-9)
    assert summary.capped_n == 3
    assert summary.failure_interval == Interval(
        pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9)
    )


def test_a_complete_arm_needs_no_label(make_study):
    study = make_study({"half": [1.5, 1.7, 1.6, 1.9], "baseline": [1.6] * 4})
    summary = summarise(study, "half")

    assert (summary.median, summary.minimum, summary.maximum) == (1.65, 1.5, 1.9)
    assert summary.mean == pytest.approx(1.675)
    assert summary.sd == pytest.approx(math.sqrt(0.0875 / 3))
    assert summary.losses_of is None
    assert summary.value == 1e-4
    assert (summary.failure_rate, summary.failure_interval.low) == (0.0, 0.0)


def test_an_arm_without_a_result_has_no_number_at_all(make_study):
    study = make_study({"half": [None, Reason.KILLED], "baseline": [1.6, 1.7]})
    summary = summarise(study, "half")

    assert (summary.n_completed, summary.n_stopped, summary.n_missing) == (0, 0, 2)
    assert [summary.mean, summary.sd, summary.median, summary.minimum, summary.maximum] == [
        None
    ] * 5
    assert summary.failure_rate is summary.failure_interval is None
    assert (summary.capped_mean, summary.capped_n) == (None, 0)
    assert summary.reasons == {"killed": 1}


def test_a_lost_machine_does_not_enter_the_failure_rate(make_study):
    study = make_study({"half": [1.5, Reason.DIVERGED, Reason.KILLED], "baseline": [1.6, 1.7, 1.8]})
    summary = summarise(study, "half")

    assert summary.failure_rate == 0.5
    assert summary.n_missing == 1
    assert summary.capped_n == 2


def test_a_trial_stopped_before_its_first_evaluation_counts_with_the_baselines_start(
    make_study, alter
):
    study = make_study({"half": [1.5, Reason.NO_UPDATES], "baseline": [1.6, 1.7]})
    study = alter(study, "baseline", 1, initial_loss=2.3)
    without = alter(study, "half", 1, initial_loss=None)
    broken = alter(study, "half", 1, initial_loss=math.nan)

    assert capped_losses(without, "half") == (1.5, 2.3)
    assert capped_losses(broken, "half") == (1.5, 2.3)


def test_no_capped_mean_is_better_than_one_that_leaves_a_failure_out(make_study, alter):
    study = make_study({"half": [1.5, Reason.NO_UPDATES], "baseline": [1.6, None]})
    study = alter(study, "half", 1, initial_loss=None)

    assert summarise(study, "half").capped_mean is None


def test_a_completed_trial_above_its_start_is_flagged(make_study, alter):
    study = make_study({"half": [1.5, 2.2], "baseline": [1.6, 1.7]})

    assert summarise(study, "half").worse_than_start == 1
    assert summarise(alter(study, "half", 1, initial_loss=None), "half").worse_than_start == 0


def test_windows_and_skips_are_added_up(make_study, alter):
    study = make_study({"half": [1.5, 1.6], "baseline": [1.6, 1.7]})
    summary = summarise(alter(study, "half", 1, windows=20, skipped=4), "half")

    assert (summary.windows, summary.skipped) == (23, 4)


def test_the_last_and_the_lowest_loss_stand_beside_the_declared_one(make_study, follow):
    """Lowest after some training: 1.5625 and 1.625; the loss before it does not count."""
    study = make_study({"baseline": [1.6, 1.7, Reason.DIVERGED]})
    curves = [[1.5, 1.5625, 1.75], [2.1, None, 1.625], [2.1, 1.0, 9.0]]
    summary = summarise(follow(study, {"baseline": curves}), "baseline")

    assert (summary.mean_last, summary.mean_best) == (1.6875, 1.59375)


def test_without_every_trial_s_evaluations_the_last_and_the_lowest_are_unknown(make_study, follow):
    study = make_study({"baseline": [1.6, 1.7]})
    summary = summarise(follow(study, {"baseline": [[2.1, 1.6], []]}), "baseline")

    assert (summary.mean_last, summary.mean_best) == (None, None)
    assert summarise(make_study({"baseline": [None]}), "baseline").mean_last is None
