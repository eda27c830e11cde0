"""`sweeper clean`: bytes first, then room."""

import os

import pytest

from sweeper.sweep.coordinator import only_coordinator


@pytest.fixture
def checkpointed(studies, tmp_path):
    """A study in mid-run whose completed and whose lost trial left a checkpoint of 7 bytes."""
    recorded = studies.begin(tmp_path)
    for arm, seed in (("baseline", 0), ("half", 1)):
        folder = recorded.folder.attempt(arm=arm, seed=seed, number=1) / "checkpoints" / "00000001"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("a state")
    return recorded


def left(recorded):
    return sorted(path.parts[-5] for path in recorded.folder.trials.rglob("state.json"))


def test_a_dry_run_tells_bytes_by_trial_and_drops_nothing(sweeper, checkpointed):
    ran = sweeper("clean", checkpointed.file, "--dry-run")

    assert ran.status == 0
    assert [line.split() for line in ran.out.splitlines()] == [
        ["trial", "checkpoints", "bytes"],
        ["baseline/0", "1", "7"],
        ["7", "bytes", "in", "1", "checkpoints", "would", "be", "dropped."],
    ]
    assert ran.err == f"Next: sweeper clean {checkpointed.file}\n"
    assert len(left(checkpointed)) == 2


def test_a_study_that_is_being_run_is_told_about_but_not_cleaned(sweeper, checkpointed):
    with only_coordinator(checkpointed.folder):
        told = sweeper("clean", checkpointed.file, "--dry-run")
        refused = sweeper("clean", checkpointed.file)

    assert told.status == 0
    assert refused.status == 2
    assert f"process {os.getpid()} on" in refused.err
    assert len(left(checkpointed)) == 2


def test_what_is_dropped_is_gone_and_the_rest_is_there(sweeper, checkpointed):
    ran = sweeper("clean", checkpointed.file)

    assert ran.out.splitlines()[-1] == "7 bytes in 1 checkpoints dropped."
    assert len(left(checkpointed)) == 1
    assert sweeper("clean", checkpointed.file).out == "0 bytes in 0 checkpoints dropped.\n"
