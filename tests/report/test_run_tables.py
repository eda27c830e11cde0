"""Exposure, stability and cost per trial, and metrics that users attached."""

import json
import math

import pandas as pd
import pytest

import sweeper
from sweeper.errors import RunFolderError
from sweeper.store.metrics import Source

PLANNED = {"records": 6, "input_tokens": 75, "windows": 3, "target_tokens": 30}


@pytest.fixture
def planned(studies, tmp_path):
    """A study in mid-run whose plan is in its run folder."""
    recorded = studies.begin(tmp_path)
    exposures = {str(seed): {"planned": PLANNED} for seed in (0, 1, 2)}
    recorded.folder.plan.write_text(json.dumps({"exposures": exposures}))
    return recorded


def of(frame, trial):
    return frame.set_index("trial").loc[trial]


def test_exposure_has_what_was_planned_beside_what_was_read(planned):
    row = of(sweeper.exposure(planned.file), "double/0")

    assert (row["target_tokens_planned"], row["target_tokens_read"]) == (30, 20)
    assert (row["records_planned"], row["records"]) == (6, 4)
    assert (row["input_tokens_planned"], row["input_tokens"]) == (75, 50)
    assert (row["windows_planned"], row["windows"], row["updates"], row["skipped"]) == (3, 2, 1, 1)


def test_target_tokens_of_skipped_windows_were_read_and_not_applied(planned):
    row = of(sweeper.exposure(planned.file), "double/0")

    assert (row["target_tokens_applied"], row["target_tokens_dropped"]) == (10, 10)
    assert row["applied_share"] == 10 / 30, "of the 30 that the baseline applied in this seed"


def test_padding_is_a_share_of_all_that_was_computed(begun):
    row = of(sweeper.exposure(begun.file), "half/0")

    assert (row["padding_tokens"], row["padding_share"]) == (9, 9 / 84)


def test_a_trial_that_waits_has_a_plan_and_nothing_else(planned):
    row = of(sweeper.exposure(planned.file), "half/2")

    assert (row["target_tokens_planned"], row["windows_planned"]) == (30, 3)
    assert row[["target_tokens_read", "target_tokens_dropped", "windows"]].isna().all()
    assert math.isnan(row["applied_share"])


def test_a_plan_that_is_damaged_is_told(planned):
    planned.folder.plan.write_text('{"exposures": {"0": {}}}')

    with pytest.raises(RunFolderError, match="the plan in the run folder cannot be read"):
        sweeper.exposure(planned.file)


def test_without_a_plan_in_the_folder_only_the_budget_is_known(begun):
    frame = sweeper.exposure(begun.file)

    assert frame["target_tokens_planned"].tolist() == [30] * 9
    assert frame["records_planned"].isna().all()


def test_stability_counts_what_was_clipped_and_skipped(begun):
    frame = sweeper.stability(begun.file)

    completed, stopped = of(frame, "half/0"), of(frame, "double/0")
    assert (completed["clipped"], completed["clip_rate"]) == (1, 1 / 3)
    assert (stopped["skipped"], stopped["skips"]) == (1, "nonfinite_loss 1")
    assert (stopped["nonfinite"], stopped["reason"]) == (1, "nonfinite_loss")
    assert completed["clip_norm"] == 1.0


def test_gradient_norms_are_told_by_median_tail_and_largest(studies, tmp_path):
    recorded = studies.found(tmp_path)
    norms = [1.0, 2.0, 3.0, 4.0, 5.0]
    with recorded.open() as store:
        claim = store.claim(studies.living_owner(), "cpu:0", cell="baseline/0")
        windows = [studies.update(n, gradient_norm=norm) for n, norm in enumerate(norms, start=1)]
        lost = studies.update(6, gradient_norm=float("inf"), ran=False)
        studies.report(store, claim, studies.started("baseline/0"), *windows, lost)

    row = of(sweeper.stability(recorded.file), "baseline/0")

    assert (row["gradient_norm_p50"], row["gradient_norm_max"]) == (3.0, 5.0)
    assert row["gradient_norm_p99"] == pytest.approx(4.96, abs=1e-12), "0.96 of the way from 4 to 5"
    assert row["nonfinite"] == 1


def test_a_loss_far_above_those_before_is_a_spike(studies, tmp_path):
    recorded = studies.found(tmp_path)
    losses = [2.0, 2.0, 2.0, 2.0, 3.5, 2.0]
    with recorded.open() as store:
        claim = store.claim(studies.living_owner(), "cpu:0", cell="baseline/0")
        windows = [studies.update(n, loss=loss) for n, loss in enumerate(losses, start=1)]
        studies.report(store, claim, studies.started("baseline/0"), *windows)

    row = of(sweeper.stability(recorded.file), "baseline/0")

    assert (row["loss_spikes"], row["largest_spike"]) == (1, 1.5)


def test_cost_sums_the_kinds_of_work_over_attempts(begun):
    row = of(sweeper.cost(begun.file), "baseline/0")

    assert (row["attempts"], row["wall_seconds"]) == (2, 14.5)
    assert (row["loading_seconds"], row["training_seconds"], row["evaluating_seconds"]) == (
        2.5,
        8.25,
        1.0,
    )
    assert math.isnan(row["saving_seconds"]), "no attempt has reported any"
    assert (row["window_seconds"], row["seconds_per_1000_target_tokens"]) == (0.75, 25.0)


def test_cost_and_attempts_tell_the_updates(begun):
    """One before the loss and two after it; the stopped trial skipped its second window."""
    cost, attempts = sweeper.cost(begun.file), sweeper.attempts(begun.file)

    assert [of(cost, trial)["updates"] for trial in ("baseline/0", "double/0")] == [3, 1]
    assert attempts[attempts["trial"] == "baseline/0"]["updates"].tolist() == [1, 2]
    assert of(attempts, "double/0")["updates"] == 1


def test_windows_that_were_done_again_are_cost_and_no_exposure(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies._preempt(store, "baseline/0", initial_loss=2.5)
        claim = store.claim(studies.living_owner(), "cpu:0", cell="baseline/0")
        again = [studies.update(n, seconds=0.5) for n in (1, 2)]
        studies.report(store, claim, studies.started("baseline/0"), *again)

    row = of(sweeper.cost(recorded.file), "baseline/0")

    assert (row["repeated_windows"], row["repeated_target_tokens"]) == (1, 10)
    assert (row["repeated_seconds"], row["window_seconds"]) == (0.25, 1.0)


def test_a_resumed_trial_that_lost_nothing_repeated_nothing(begun):
    frame = sweeper.cost(begun.file)

    assert of(frame, "baseline/0")["repeated_windows"] == 0
    assert of(frame, "half/2")["repeated_windows"] is pd.NA, "it has not begun"


@pytest.mark.parametrize("table", [sweeper.exposure, sweeper.stability, sweeper.cost])
def test_the_repeat_of_the_baseline_is_a_row_of_its_own_name(studies, tmp_path, table):
    recorded = studies.finish(tmp_path)
    studies.add_repeat(recorded)

    frame = table(recorded.file)

    assert frame["arm"].tolist().count("baseline~repeat") == 1
    assert frame["arm"].tolist().count("baseline") == 3


@pytest.fixture
def attached(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    source = Source(name="scores.csv", sha256="a" * 64)
    with recorded.open() as store:
        values = {("half/0", "rouge"): 0.1, ("baseline/0", "rouge"): 0.3, ("half/0", "em"): 1.0}
        store.attach(values, source, replace=False)
    return recorded


def test_metrics_are_a_row_per_trial_and_name_with_their_source(attached):
    frame = sweeper.metrics(attached.file)

    assert frame[["trial", "metric", "value"]].to_numpy().tolist() == [
        ["baseline/0", "rouge", 0.3],
        ["half/0", "em", 1.0],
        ["half/0", "rouge", 0.1],
    ]
    assert frame["source"].unique().tolist() == ["scores.csv"]
    assert frame["source_sha256"].unique().tolist() == ["a" * 64]
    assert frame.attrs["title"] == "secondary, not selected on"


def test_metrics_are_the_last_columns_of_trials(attached):
    frame = sweeper.trials(attached.file).set_index("trial")

    assert list(frame.columns)[-2:] == ["metric_em", "metric_rouge"]
    assert frame.loc["half/0", ["metric_em", "metric_rouge"]].tolist() == [1.0, 0.1]
    assert frame.loc["double/0", ["metric_em", "metric_rouge"]].isna().all()


def test_what_is_attached_changes_nothing_that_is_compared(studies, attached, finished):
    assert sweeper.compare(attached.file) == sweeper.compare(finished.file)


def test_without_metrics_there_is_an_empty_table_and_no_column_of_trials(begun):
    assert len(sweeper.metrics(begun.file)) == 0
    assert list(sweeper.trials(begun.file).columns)[-1] == "fingerprint"
