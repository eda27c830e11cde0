"""The tables of arms and differences: the comparison's numbers, to the last digit."""

import dataclasses
import math

import pandas as pd
import pytest

import sweeper
from sweeper.report.arm_tables import arm_table, difference_table


@pytest.fixture(scope="module")
def found(finished):
    return sweeper.compare(finished.file)


@pytest.fixture(scope="module")
def half(found):
    return found.arms[0]


def row(table, arm):
    return next(record for record in table.records() if record["arm"] == arm)


def test_every_arm_is_a_row_with_the_baseline_first(finished):
    frame = sweeper.arms(finished.file)

    assert frame["arm"].tolist() == ["baseline", "half", "double"]
    assert frame["learning_rate"].tolist() == [0.0002, 0.0001, 0.0004]


def test_an_arm_s_losses_and_counts_are_its_summary_s(found, half):
    shown = row(arm_table(found), "half")
    summary = half.summary

    assert (shown["mean"], shown["sd"], shown["median"]) == (
        summary.mean,
        summary.sd,
        summary.median,
    )
    assert (shown["minimum"], shown["maximum"]) == (summary.minimum, summary.maximum)
    assert (shown["planned"], shown["completed"], shown["stopped"], shown["missing"]) == (
        3,
        3,
        0,
        0,
    )
    assert (shown["failure_low"], shown["failure_high"]) == (
        summary.failure_interval.low,
        summary.failure_interval.high,
    )
    assert (shown["mean"], shown["sd"]) == (2.0703125, 0.0703125), "2, 2.0703125 and 2.140625"


def test_the_means_at_the_last_and_at_the_lowest_evaluation_stand_beside_the_declared_one(found):
    baseline = dataclasses.replace(found.baseline, mean=1.5625, mean_last=1.5625, mean_best=1.5)
    shown = row(arm_table(dataclasses.replace(found, baseline=baseline)), "baseline")

    assert (shown["mean"], shown["mean_last"], shown["mean_best"]) == (1.5625, 1.5625, 1.5)


def test_an_arm_s_difference_time_and_retention_are_the_comparison_s(found, half):
    shown = row(arm_table(found), "half")

    assert shown["difference"] == half.difference.mean == 0.5078125
    assert shown["difference_low"] == half.difference.interval_95.low
    assert shown["difference_high"] == half.difference.interval_95.high
    assert shown["p_holm"] == half.difference.p_holm
    assert (shown["reached"], shown["reached_of"]) == (0, 3)
    assert shown["tokens_to_target"] is None, "no trial of it reached the baseline's worst loss"
    assert shown["retention_upper"] == half.retention.upper
    assert shown["verdict"] == half.verdict.label
    assert shown["seconds_per_1000_target_tokens"] == 25.0, "3 windows of 0.25 s, 30 target tokens"


def test_an_arm_of_which_no_trial_completed_has_no_mean(found):
    shown = row(arm_table(found), "double")

    assert (shown["mean"], shown["sd"], shown["difference"]) == (None, None, None)
    assert shown["losses_of"] == "completed only, 0 of 3"
    assert shown["capped_mean"] == 2.5, "each stopped trial counts with its initial loss"
    assert (shown["updates"], shown["skipped"]) == (3, 3)


def test_a_mean_over_survivors_says_of_how_many(begun):
    frame = sweeper.arms(begun.file).set_index("arm")

    assert frame["losses_of"].to_dict() == {
        "baseline": "completed only, 1 of 3",
        "half": "completed only, 1 of 3",
        "double": "completed only, 0 of 3",
    }
    assert frame.loc["half", "mean"] == 1.75
    assert math.isnan(frame.loc["half", "sd"]), "one trial has no spread"


def test_a_difference_has_all_its_statistics(found, half):
    shown = row(difference_table(found), "half")
    difference = half.difference

    assert (shown["mean"], shown["sd"], shown["se"]) == (
        difference.mean,
        difference.sd,
        difference.standard_error,
    )
    assert (shown["low_95"], shown["high_95"]) == (
        difference.interval_95.low,
        difference.interval_95.high,
    )
    assert (shown["low_90"], shown["high_90"]) == (
        difference.interval_90.low,
        difference.interval_90.high,
    )
    assert (shown["simultaneous_level"], shown["low_simultaneous"], shown["high_simultaneous"]) == (
        0.975,
        difference.simultaneous.low,
        difference.simultaneous.high,
    )
    assert (shown["p"], shown["p_holm"], shown["p_sign_flip"]) == (
        difference.p,
        difference.p_holm,
        difference.sign_flip_p,
    )
    assert (shown["lower_in"], shown["pairs"], shown["planned_pairs"]) == (0, 3, 3)
    assert (shown["paired_improvement"], shown["all_pairs_improvement"]) == (0.0, 0.0)
    assert (shown["correlation"], shown["unpaired_se"], shown["resolution"]) == (
        difference.correlation,
        difference.unpaired_error,
        difference.resolution,
    )
    assert shown["sentence"] == half.verdict.sentence


def test_every_seed_s_difference_has_a_column_of_its_own(finished):
    frame = sweeper.differences(finished.file).set_index("arm")

    seeds = [f"difference_seed_{seed}" for seed in (0, 1, 2)]
    assert frame.loc["half", seeds].tolist() == [0.5, 0.5078125, 0.515625]
    assert frame.loc["double", seeds].isna().all()


def test_the_noise_floor_stands_beside_differences_and_in_no_arm(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    studies.add_repeat(recorded)
    with recorded.open() as store:
        studies.complete(store, studies.REPEAT, losses=(2.5, 2.0, 1.75))

    arms, differences = sweeper.arms(recorded.file), sweeper.differences(recorded.file)

    assert differences["noise_floor"].tolist() == [0.25, 0.25]
    assert arms["arm"].tolist() == ["baseline", "half", "double"]
    assert arms["mean"].tolist()[0] == 1.5625, "1.5, 1.5625 and 1.625, without the repeat's 1.75"
    assert arms["planned"].tolist() == [3, 3, 3]


def test_a_study_of_which_nothing_ran_has_arms_without_numbers(studies, tmp_path):
    recorded = studies.found(tmp_path)

    frame = sweeper.arms(recorded.file)

    assert frame["planned"].tolist() == frame["missing"].tolist() == [3, 3, 3]
    assert frame[["mean", "capped_mean", "failure_rate", "difference"]].isna().all(axis=None)
    assert frame["p_holm"].isna().all()
    pd.testing.assert_frame_equal(sweeper.arms(recorded.folder.path), frame)
