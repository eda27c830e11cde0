"""Trials on record, looked at: what is found, and what there was to look at."""

from __future__ import annotations

import pytest

from sweeper.errors import NotFound
from sweeper.report.diagnosis import diagnose
from sweeper.report.symptoms import Symptom


def test_a_stopped_trial_shows_its_nonfinite_window(begun):
    found = diagnose(begun.file, "double/0")

    (finding,) = found.findings
    assert finding.symptom is Symptom.NONFINITE
    assert finding.sentence == "the loss was not finite in window 2, so no update was made"
    assert (found.trial["outcome"], found.trial["reason"]) == ("stopped", "nonfinite_loss")


def test_its_guesses_halve_the_rate_that_the_trial_was_told(begun):
    """The doubled rate is 0.0004."""
    found = diagnose(begun.file, "double/0")

    assert [guess.command[3:] for guess in found.guesses] == [
        (),
        ("--windows", "2", "--set", "training.learning_rate=0.0002"),
    ]
    assert {guess.command[1] for guess in found.guesses} == {str(begun.file)}


def test_a_healthy_trial_of_two_attempts_has_no_finding_and_says_what_was_looked_at(begun):
    found = diagnose(begun.file, "baseline/0")

    assert (found.findings, found.guesses) == ([], [])
    assert found.looked_at == {
        "windows": 3,
        "validation_evaluations": 2,
        "retention_evaluations": 2,
        "attempts": 2,
    }
    assert found.not_found == list(Symptom)


def test_the_agreed_margin_decides_what_is_damage(studies, tmp_path):
    """The study allows 0.5; retention starts at 3."""
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.complete(store, "baseline/0", losses=(2.5, 2.0, 1.5), retention_loss=3.5)
        studies.complete(store, "half/0", losses=(2.5, 2.0, 1.5), retention_loss=3.625)

    assert diagnose(recorded.file, "baseline/0").findings == []
    (finding,) = diagnose(recorded.file, "half/0").findings
    assert finding.symptom is Symptom.RETENTION_DAMAGE
    assert finding.numbers == {"initial": 3.0, "final": 3.625, "allowed": 0.5}


@pytest.mark.parametrize("trial", ["baseline/1", "half/1", "double/2"])
def test_a_trial_without_a_window_has_nothing_to_be_found(begun, trial):
    found = diagnose(begun.file, trial)

    assert found.findings == []
    assert found.looked_at["windows"] == 0


def test_a_run_folder_does_as_well(begun):
    assert diagnose(begun.folder.path, "double/0").findings


def test_an_unknown_trial_is_refused(begun):
    with pytest.raises(NotFound, match="the study has no trial double/7"):
        diagnose(begun.file, "double/7")
