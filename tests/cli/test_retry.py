"""`sweeper retry` and `sweeper cancel`: what is said, and what the record holds then."""

import json
import os

import pytest

from sweeper.sweep.coordinator import only_coordinator


@pytest.fixture
def mid_run(studies, tmp_path):
    """A study of nine cells whose coordinator, this process, is not at work."""
    return studies.begin(tmp_path)


def statuses(sweeper, study, trial):
    rows = json.loads(sweeper("trials", study.file, "--json").out)
    return next(
        (row["status"], row["outcome"], row["reason"]) for row in rows if row["trial"] == trial
    )


def test_a_failed_trial_is_opened_again_and_the_way_on_is_named(sweeper, mid_run):
    ran = sweeper("retry", mid_run.file, "baseline/1")

    assert (ran.status, ran.out) == (
        0,
        "baseline/1 had ended as failed (code_error); it begins anew.\n",
    )
    assert ran.err.splitlines()[-1] == f"Next: sweeper run {mid_run.file}"
    assert statuses(sweeper, mid_run, "baseline/1") == ("waiting", None, None)


def test_a_lost_trial_goes_on(sweeper, mid_run):
    ran = sweeper("retry", mid_run.file, "half/1")

    assert ran.out == (
        "half/1 had ended as lost (killed); it goes on from its newest checkpoint, if any.\n"
    )


@pytest.mark.parametrize(
    ("trial", "got"),
    [("baseline/0", "completed (budget_reached)"), ("double/0", "stopped (nonfinite_loss)")],
)
def test_a_result_is_refused_with_its_reason(sweeper, mid_run, trial, got):
    ran = sweeper("retry", mid_run.file, trial)

    assert (ran.status, ran.out) == (2, "")
    error = ran.err.splitlines()[-1]
    assert error.startswith(f"error: {trial}: the trial is not retried: ")
    assert f"(got {got}; expected failed, lost or cancelled, or ended by a full disk)" in error


@pytest.mark.parametrize("command", ["retry", "cancel"])
def test_a_trial_that_the_study_lacks_is_a_mistake(sweeper, mid_run, command):
    ran = sweeper(command, mid_run.file, "duoble/0")

    assert ran.status == 2
    assert "the study has no trial duoble/0" in ran.err
    assert "Did you mean double/0?" in ran.err


@pytest.mark.parametrize("arguments", [["retry", "baseline/1"], ["cancel", "half/2"], ["cancel"]])
def test_a_study_that_is_being_run_is_left_alone(sweeper, mid_run, arguments):
    command, *trial = arguments
    with only_coordinator(mid_run.folder):
        ran = sweeper(command, mid_run.file, *trial)

    assert (ran.status, ran.out) == (2, "")
    assert f"a coordinator, process {os.getpid()} on {os.uname().nodename}" in ran.err


def test_a_waiting_trial_is_cancelled_and_can_come_back(sweeper, mid_run):
    ran = sweeper("cancel", mid_run.file, "half/2")

    assert (ran.status, ran.out) == (0, "half/2 is cancelled.\n")
    assert (
        ran.err.splitlines()[-1] == f"Next: sweeper retry {mid_run.file} half/2   (opens it again)"
    )
    assert statuses(sweeper, mid_run, "half/2") == ("ended", "cancelled", "user_cancelled")
    assert sweeper("show", mid_run.file, "half/2").out.startswith(
        "half/2 cancelled (user_cancelled): cancelled by the user\n"
    )

    assert sweeper("retry", mid_run.file, "half/2").status == 0
    assert statuses(sweeper, mid_run, "half/2") == ("waiting", None, None)


def test_a_closed_study_says_what_it_left_out_and_can_be_compared(sweeper, mid_run):
    ran = sweeper("cancel", mid_run.file)

    assert ran.status == 0
    assert ran.out == "The study is closed; cancelled: baseline/2, half/2, double/2\n"
    assert ran.err.splitlines()[-1] == f"Next: sweeper compare {mid_run.file}"
    assert "Ended: the user closed the study" in sweeper("status", mid_run.file).out
    assert sweeper("compare", mid_run.file).status == 0
    assert "no trial, for none was open" in sweeper("cancel", mid_run.file).out
    assert "the study is closed" in sweeper("retry", mid_run.file, "half/2").err
