"""A study on record is not changed by its file, silently or half-way."""

import pytest

from sweeper.errors import StudyConflict
from sweeper.sweep.stop_request import StopRequest


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
