"""What a trial needs on the disk, and what becomes of one that cannot fit."""

import pytest

from sweeper.errors import StudyConflict
from sweeper.records import Reason
from sweeper.store.store import StudyStore
from sweeper.sweep import disk_room
from sweeper.sweep.conflicts import refuse_conflicts
from sweeper.sweep.disk_room import least_disk_bytes, no_room
from sweeper.sweep.interventions import retry_trial
from sweeper.sweep.observer import SilentObserver
from sweeper.training.report import ModelReport
from sweeper.workers.limits import TrialLimits

REPORT = ModelReport(
    parameters=5000,
    trainable_parameters=1000,
    adapted_modules=("q",),
    embedding_rows=10,
    max_positions=None,
    tied_embeddings=False,
)


@pytest.fixture
def known(study):
    """The small study, with the report on its model that preparing it leaves."""
    study.folder.prepared.mkdir(parents=True)
    study.folder.model_report.write_text(REPORT.to_json())
    return study


@pytest.fixture
def rewritten(known, small):
    """Loads the study again with other settings."""

    def load(old, new):
        text = known.file.path.read_text()
        assert old in text
        known.file.path.write_text(text.replace(old, new))
        return small(known.place)

    return load


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("training: {", "training: {", 4),
        ("training: {", "training: {optimizer: {kind: sgd}, ", 2),
        ("training: {", "training: {optimizer: {kind: sgd, momentum: 0.9}, ", 3),
        ("selection: {", "selection: {checkpoint: best_validation, ", 5),
    ],
    ids=["adamw", "sgd", "momentum", "best too"],
)
def test_a_trial_needs_a_checkpoint_and_its_weights(rewritten, old, new, values):
    """Weights and what the optimizer keeps of each, then the weights again: 4 bytes a value."""
    study = rewritten(old, new)

    assert least_disk_bytes(study.file.study, study.folder) == values * 1000 * 4


def test_nothing_is_needed_where_nothing_is_known_of_the_model(study):
    assert least_disk_bytes(study.file.study, study.folder) == 0


@pytest.mark.parametrize(("free", "fits"), [(99, False), (100, True), (None, True)])
def test_a_trial_fits_when_so_much_is_free(tmp_path, monkeypatch, free, fits):
    monkeypatch.setattr(disk_room, "free_bytes", lambda _: free)

    assert (no_room(tmp_path, TrialLimits(needed_disk_bytes=100)) is None) is fits


def test_on_a_full_disk_both_figures_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_room, "free_bytes", lambda _: 99)

    outcome = no_room(tmp_path, TrialLimits(needed_disk_bytes=100))

    assert outcome.reason is Reason.DISK
    assert outcome.detail == (
        "the disk is too full: a checkpoint and the weights need at least 100 bytes, 99 are free"
    )
    assert outcome.evidence == {"needed_disk_bytes": "100", "free_disk_bytes": "99"}


@pytest.mark.parametrize(("used", "fits"), [(49, True), (50, False)])
def test_a_trial_that_would_reach_its_limit_does_not_fit(tmp_path, used, fits):
    limits = TrialLimits(disk_bytes=150, used_disk_bytes=used, needed_disk_bytes=100)

    assert (no_room(tmp_path, limits) is None) is fits


def test_a_trial_without_room_is_limited_and_the_others_go_on(known, attempts, monkeypatch):
    """While `half` waits for its turn the disk is full; adamw needs 16000 bytes."""
    known.behave({})
    monkeypatch.setattr(disk_room, "free_bytes", lambda p: 5 if "half" in str(p) else 1 << 40)

    end = known.run()

    assert end.counts == {"completed": 1, "limited": 1}
    assert end.without_room == ("half/0",)
    assert attempts(known) == [
        ("baseline/0", "completed", "budget_reached"),
        ("half/0", "limited", "disk"),
    ]
    with StudyStore.read(known.url) as store:
        assert store.attempts("half/0")[0]["detail"] == (
            "the disk is too full: a checkpoint and the weights need at least 16000 bytes, "
            "5 are free"
        )


def test_whoever_made_room_retries_what_a_full_disk_ended(known, attempts, monkeypatch):
    known.behave({})
    monkeypatch.setattr(disk_room, "free_bytes", lambda p: 5 if "half" in str(p) else 1 << 40)
    known.run()
    monkeypatch.setattr(disk_room, "free_bytes", lambda _: 1 << 40)

    retry_trial(known.file, known.folder, "half/0", observer=SilentObserver())
    end = known.run()

    assert (end.counts, end.without_room) == ({"completed": 2}, ())
    assert attempts(known)[-1] == ("half/0", "completed", "budget_reached")


def test_what_earlier_attempts_hold_counts_against_the_limit(rewritten, attempts):
    """The first attempt at `half` leaves its events, and is killed; the limit leaves 384 bytes."""
    study = rewritten("max_resumes: 1", "max_resumes: 1, limits: {disk: 16KiB}")
    study.behave({"half/0": ["killed", "complete"]})

    end = study.run()

    assert end.without_room == (), "`sweeper amend` raises this limit"
    assert attempts(study)[1:] == [("half/0", "lost", "killed"), ("half/0", "limited", "disk")]
    with StudyStore.read(study.url) as store:
        detail = store.attempts("half/0")[1]["detail"]
    assert detail.startswith("a limit of 16384 bytes on disk is too low: earlier attempts hold ")
    assert detail.endswith("a checkpoint and the weights need at least 16000 more")


def test_another_limit_on_disk_is_refused_once_it_is_agreed(rewritten):
    study = rewritten("max_resumes: 1", "max_resumes: 1, limits: {disk: 1GiB}")
    study.behave({})
    study.run()
    raised = rewritten("disk: 1GiB", "disk: 2GiB")

    with StudyStore.read(study.url) as store, pytest.raises(StudyConflict, match=r"limits\.disk"):
        refuse_conflicts(store, raised.plan, raised.file, raised.folder)
