"""The tables as pandas frames: one row per cell, window, evaluation, attempt; nothing left out."""

import math

import pandas as pd
import pytest

import sweeper
from sweeper.errors import NotFound
from sweeper.report.tables import update_table


def test_every_planned_cell_is_a_row_of_trials_in_plan_order(begun):
    frame = sweeper.trials(begun.file)

    assert frame["trial"].tolist() == [
        "baseline/0",
        "half/0",
        "double/0",
        "baseline/1",
        "half/1",
        "double/1",
        "baseline/2",
        "half/2",
        "double/2",
    ]
    assert frame["status"].tolist() == ["ended"] * 5 + ["running"] + ["waiting"] * 3


def test_a_completed_trial_has_its_losses_counts_and_costs(begun):
    row = sweeper.trials(begun.file).iloc[0]

    assert row["learning_rate"] == 0.0002
    assert (row["outcome"], row["reason"]) == ("completed", "budget_reached")
    assert (row["initial_loss"], row["validation_loss"]) == (2.5, 1.5)
    assert (row["retention_initial_loss"], row["retention_loss"]) == (3.0, 3.0625)
    assert (row["target_tokens_read"], row["updates"], row["clipped"]) == (30, 3, 1)
    assert row["wall_seconds"] == 14.5, "both attempts: 2 s and 12.5 s"
    assert row["attempts"] == 2
    assert row["adapter_path"] == "trials/baseline-0/attempts/2/adapter"


def test_a_stopped_trial_has_no_endpoint_but_its_last_finite_loss(begun):
    row = sweeper.trials(begun.file).iloc[2]

    assert (row["outcome"], row["reason"]) == ("stopped", "nonfinite_loss")
    assert row["detail"] == "the loss of window 2 was nan"
    assert math.isnan(row["validation_loss"])
    assert row["last_finite_loss"] == 2.625
    assert (row["updates"], row["skipped"]) == (1, 1)


def test_what_a_waiting_trial_does_not_know_is_missing_and_not_zero(begun):
    row = sweeper.trials(begun.file).iloc[8]

    assert row["attempts"] == 0
    assert row["target_tokens_read"] is pd.NA
    assert pd.isna(row["outcome"])


def test_updates_of_one_trial_are_its_windows_with_skipped_ones(begun):
    frame = sweeper.updates(begun.file, "double/0")

    assert frame["window"].tolist() == [1, 2]
    assert frame["loss"].tolist()[0] == 2.625
    assert math.isnan(frame["loss"][1])
    assert frame["nonfinite"][1] == "loss=nan"
    assert frame["skip"][1] == "nonfinite_loss"
    assert frame["ran"].tolist() == [True, False]


def test_updates_of_all_trials_follow_the_plan(begun):
    frame = sweeper.updates(begun.file)

    assert frame.groupby("trial", sort=False).size().to_dict() == {
        "baseline/0": 3,
        "half/0": 3,
        "double/0": 2,
        "double/1": 1,
    }


def test_evaluations_are_of_both_splits_before_and_after(begun):
    frame = sweeper.evaluations(begun.file, "baseline/0")

    assert frame[["split", "grid_index", "loss"]].to_numpy().tolist() == [
        ["validation", 0, 2.5],
        ["retention", 0, 3.0],
        ["validation", 1, 1.5],
        ["retention", 1, 3.0625],
    ]


def test_attempts_keep_the_one_that_was_lost(begun):
    frame = sweeper.attempts(begun.file, "baseline/0")

    assert frame["attempt"].tolist() == [1, 2]
    assert frame["reason"].tolist() == ["preempted", "budget_reached"]
    assert frame["exit_status"].tolist() == [pd.NA, 0]
    assert frame["configuration"][1] == '{"training.learning_rate":"0.0002","tune":"\\"lora\\""}'


@pytest.mark.parametrize("table", [sweeper.updates, sweeper.evaluations, sweeper.attempts])
def test_a_trial_that_the_study_lacks_is_refused(begun, table):
    with pytest.raises(NotFound, match="the study has no trial tripple/0"):
        table(begun.file, "tripple/0")


def test_a_study_that_is_running_is_read_without_disturbing_it(begun):
    with begun.open() as running:
        frame = sweeper.trials(begun.file)
        claimed = running.live_attempts()

    assert frame["status"].tolist().count("running") == len(claimed) == 1


def test_the_run_folder_holds_the_same_tables(begun):
    pd.testing.assert_frame_equal(sweeper.trials(begun.folder.path), sweeper.trials(begun.file))


def test_a_study_without_a_window_has_an_empty_table_with_all_columns(studies, tmp_path):
    recorded = studies.found(tmp_path)

    frame = sweeper.updates(recorded.file)

    assert len(frame) == 0
    assert list(frame.columns) == update_table(recorded.file).names()
