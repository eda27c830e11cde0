"""A study on record is not changed by its file, silently or half-way."""

import pytest

from sweeper.errors import StudyConflict, StudyFileError
from sweeper.store.store import StudyStore
from sweeper.sweep.running import under_name
from sweeper.sweep.stop_request import StopRequest
from sweeper.workers.slots import Slot

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


def edited(study, small, old, new):
    """The study as its file says after an edit."""
    text = study.file.path.read_text()
    assert old in text
    study.file.path.write_text(text.replace(old, new))
    return small(study.place)


def run_first_trial(study, recorder):
    """Ends the run after one trial, the other cell of the seed still open."""
    stop = StopRequest()
    study.run(stop=stop, observer=recorder(trial_ended=stop.ask))


def test_another_limit_is_refused_with_both_values(study, small, recorder):
    run_first_trial(study, recorder)
    changed = edited(study, small, "max_resumes: 1", "max_resumes: 1, limits: {wall_clock: 2h}")

    with pytest.raises(StudyConflict) as refusal:
        changed.run()

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == ("run.limits.wall_clock", "2h", "null")


def test_the_same_limit_written_in_another_place_is_no_conflict(study, small, recorder):
    run_first_trial(study, recorder)
    same = edited(study, small, "max_resumes: 1", "max_resumes: 1, limits: {hang: 10m}")

    assert same.run().counts == {"completed": 2}


@pytest.mark.parametrize(
    ("old", "new", "key", "before", "now"),
    [
        ("micro_batch: 1", "micro_batch: 4", "run.micro_batch", "1", "4"),
        ("max_resumes", "deterministic: false, max_resumes", "run.deterministic", "yes", "no"),
    ],
)
def test_a_seed_that_has_begun_does_not_go_on_another_way(
    study, small, recorder, old, new, key, before, now
):
    run_first_trial(study, recorder)
    changed = edited(study, small, old, new)

    with pytest.raises(StudyConflict) as refusal:
        changed.run()

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == (key, now, before)
    assert "seed 0" in fault.what


def test_a_seed_that_has_begun_does_not_go_on_with_other_ranks_unasked(study, small, recorder):
    run_first_trial(study, recorder)
    changed = edited(study, small, "max_resumes", "devices_per_trial: 2, max_resumes")

    with pytest.raises(StudyConflict) as refusal:
        changed.run()

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == ("run.devices_per_trial", "2", "1")
    assert "go on with --resume-elsewhere: trials are then marked" in fault.hint


def test_a_trial_that_goes_on_elsewhere_is_told_so_and_says_what_changed(study, small, recorder):
    study.behave({"baseline/0": ["slow", "complete"]})
    stop = StopRequest()
    study.run(stop=stop, observer=recorder(progress=stop.ask))
    changed = edited(study, small, "max_resumes", "devices_per_trial: 2, max_resumes")
    observer = recorder()

    end = changed.run(elsewhere=True, observer=observer)

    assert end.counts == {"completed": 2}
    assert observer.messages[0] == (
        "baseline/0 goes on after window 1 of attempt 1; ranks: 1 then, 2 now"
    )
    with StudyStore.read(changed.url) as store:
        first, second = [each for each in store.stretches() if each.cell == "baseline/0"]
    assert (first.environment["ranks"], second.environment["ranks"]) == ("1", "2")
    assert second.resume_differences == ("ranks: 1 then, 2 now",)


def test_a_seed_that_has_begun_does_not_go_on_on_another_kind_of_device_unasked(study, recorder):
    run_first_trial(study, recorder)

    with pytest.raises(StudyConflict) as refusal:
        study.run(device="GPU-0a1b")

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == (
        "run.slots",
        "cpu 0 with device a GPU",
        "device cpu",
    )
    assert "seed 0" in fault.what
    assert "--resume-elsewhere" in fault.hint


def test_asked_to_it_goes_on_on_another_kind_of_device(study, recorder):
    run_first_trial(study, recorder)

    assert study.run(device="GPU-0a1b", elsewhere=True).counts == {"completed": 2}


def test_a_seed_that_has_not_begun_runs_on_any_device(study):
    assert study.run(device="GPU-0a1b").counts == {"completed": 2}


def test_a_trial_that_has_begun_waits_for_its_kind_of_device(tmp_path, small, recorder, attempts):
    """There is a slot of each kind; the one without a GPU gets to it when it is free."""
    study = small(tmp_path, seeds="[0, 1]")
    study.behave({"baseline/0": ["slow", "complete"]})
    stop = StopRequest()
    study.run(stop=stop, observer=recorder(progress=stop.ask))

    end = study.run(slots=[Slot(name="gpu", device="GPU-0a1b"), Slot(name="cpu", device=None)])

    assert end.counts == {"completed": 4}
    with StudyStore.read(study.url) as store:
        assert [row["slot"] for row in store.attempts("baseline/0")] == ["cpu 0", "cpu"]


def test_how_checkpoints_are_kept_may_change(study, small, recorder):
    run_first_trial(study, recorder)
    changed = edited(study, small, "max_resumes: 1", "max_resumes: 1, checkpoint: {every: 30s}")

    assert changed.run().counts == {"completed": 2}


def test_what_only_says_how_a_study_runs_may_change(study, small, recorder):
    run_first_trial(study, recorder)
    changed = edited(study, small, "max_resumes: 1", "max_resumes: 2")

    assert changed.run().counts == {"completed": 2}


def test_a_seed_that_has_ended_binds_nobody(study, small):
    study.run()
    changed = edited(study, small, "micro_batch: 1", "micro_batch: 4")

    assert changed.run().did_nothing


def test_attempts_without_their_database_are_not_run_over(study):
    study.run()
    for file in study.folder.path.glob("study.db*"):
        file.unlink()

    with pytest.raises(StudyConflict, match=r"holds attempts, but the database .* is gone"):
        study.run()

    assert not study.folder.database.exists()


def test_another_fingerprint_under_the_same_name_is_refused_with_the_way_on(study, small):
    study.run()
    study.file.path.unlink()
    changed = small(study.place, rate="3e-4")

    with pytest.raises(StudyConflict) as refusal:
        changed.run()

    key, whole = refusal.value.faults
    assert (key.where, key.expected, key.got) == (
        "training.learning_rate",
        "0.0002",
        "0.0003",
    )
    assert f"sweeper run {changed.file.path} --as NEW-NAME" in whole.hint
    assert "--replace" not in whole.hint


def test_a_study_with_an_ended_trial_is_not_replaced(study):
    study.run()

    with pytest.raises(StudyConflict, match="baseline/0 completed"):
        study.run(replace=True)


def test_a_study_without_one_is_replaced_when_asked_to(study, small, trials, recorder):
    study.behave({"baseline/0": ["code_error"]})
    study.run()
    study.file.path.unlink()
    changed = small(study.place, rate="3e-4")
    with pytest.raises(StudyConflict, match="--replace"):
        changed.run()
    changed.behave({})
    observer = recorder()

    end = changed.run(replace=True, observer=observer)

    assert end.counts == {"completed": 2}
    assert observer.messages[0] == "discarded the recorded study and its 1 attempts"
    assert trials(changed)["baseline/0"]["learning_rate"] == 3e-4
    assert trials(changed)["baseline/0"]["attempts"] == 1


def test_a_study_runs_under_another_name_in_a_folder_of_its_own(study):
    renamed = under_name(study.file, "other-rate")

    assert renamed.study.name == "other-rate"
    assert renamed.text == study.file.text


def test_a_name_that_is_a_path_is_refused(study):
    with pytest.raises(StudyFileError, match="--as"):
        under_name(study.file, "../elsewhere")
