"""Which checkpoints are dropped, and that nothing else is."""

import json

import pytest

from sweeper.store.store import StudyStore
from sweeper.sweep.cleaning import clean, superfluous_checkpoints
from sweeper.sweep.interventions import close_study, retry_trial
from sweeper.sweep.observer import SilentObserver
from sweeper.training import evidence, keeper
from sweeper.trial.folder import AttemptFolder

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


@pytest.fixture
def ended(study):
    """`baseline` completed in its second attempt, `half` was lost for good in its second."""
    study.behave(
        {
            "baseline/0": ["killed_after_a_checkpoint", "complete"],
            "half/0": ["killed_after_a_checkpoint", "killed"],
        }
    )
    assert study.run().counts == {"completed": 1, "lost": 1}
    for arm in ("baseline", "half"):
        (checkpoint(study, arm) / "tensors.safetensors").write_bytes(b"x" * 100)
    return study


@pytest.fixture
def dropped():
    """Cleans, and returns trial and bytes of what was dropped."""

    def carry_out(study):
        found = clean(study.file, study.folder, observer=SilentObserver())
        return [(each.trial, each.size_bytes) for each in found]

    return carry_out


def attempt(study, arm):
    return AttemptFolder(study.folder.attempt(arm=arm, seed=0, number=1))


def checkpoint(study, arm):
    return attempt(study, arm).checkpoints / "00000001"


def leave_evidence(study, text):
    attempt(study, "baseline").evidence.mkdir()
    (attempt(study, "baseline").evidence / "anomaly.json").write_text(text)


def test_the_names_are_those_that_trials_write_under(tmp_path):
    folder = AttemptFolder(tmp_path)

    assert folder.checkpoints.name == keeper.CHECKPOINTS
    assert folder.evidence / "anomaly.json" == tmp_path / keeper.EVIDENCE / evidence.ANOMALY


def test_a_completed_trial_loses_its_checkpoints_and_a_lost_one_keeps_them(ended, dropped):
    files = {path for path in ended.folder.trials.rglob("*") if "checkpoints" not in path.parts}

    assert dropped(ended) == [("baseline/0", 100)]

    assert not checkpoint(ended, "baseline").exists()
    assert checkpoint(ended, "half").exists()
    assert all(path.exists() for path in files)
    assert dropped(ended) == []


def test_a_lost_trial_goes_on_from_its_checkpoint_after_all(ended, dropped):
    dropped(ended)
    ended.behave({"half/0": ["killed", "killed", "complete"]})
    retry_trial(ended.file, ended.folder, "half/0", observer=SilentObserver())

    assert ended.run().counts == {"completed": 2}
    with StudyStore.read(ended.url) as store:
        assert store.attempts("half/0")[-1]["resumed_after_window"] == 1


def test_in_a_closed_study_nothing_goes_on(ended, dropped):
    close_study(ended.file, ended.folder, observer=SilentObserver())

    assert dropped(ended) == [("baseline/0", 100), ("half/0", 100)]


@pytest.mark.parametrize("place", ["", "{attempt}/", "/moved/trials/baseline-0/attempts/1/"])
def test_the_checkpoint_that_evidence_names_stays(ended, dropped, place):
    """It is named from its attempt's folder, or as it was where the run folder lay then."""
    newer = attempt(ended, "baseline").checkpoints / "00000002"
    newer.mkdir()
    path = place.format(attempt=attempt(ended, "baseline").path) + "checkpoints/00000001"
    leave_evidence(ended, json.dumps({"checkpoint": {"path": path}}))

    assert dropped(ended) == [("baseline/0", 0)]

    assert checkpoint(ended, "baseline").exists()
    assert not newer.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"checkpoint": 3}'])
def test_beside_evidence_that_cannot_be_read_everything_stays(ended, dropped, text):
    leave_evidence(ended, text)

    assert dropped(ended) == []


def test_evidence_may_name_no_checkpoint(ended, dropped):
    leave_evidence(ended, '{"checkpoint": null}')

    assert dropped(ended) == [("baseline/0", 100)]


def test_a_link_is_somebody_else_s(ended, dropped, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    checkpoint(ended, "baseline").rename(elsewhere)
    checkpoint(ended, "baseline").symlink_to(elsewhere)

    assert dropped(ended) == []
    assert (elsewhere / "tensors.safetensors").exists()


def test_to_ask_first_changes_nothing(ended):
    (found,) = superfluous_checkpoints(ended.file, ended.folder)

    assert (found.trial, found.path, found.size_bytes) == (
        "baseline/0",
        checkpoint(ended, "baseline"),
        100,
    )
    assert checkpoint(ended, "baseline").exists()
