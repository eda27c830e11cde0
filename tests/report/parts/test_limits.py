"""Which caveats apply to which study."""

import dataclasses

import pytest

from sweeper.report.parts.limits import limits
from sweeper.selection.evidence import StudyKind
from sweeper.selection.statistics import Interval

SETTINGS = "The answer holds for the settings that were held fixed"
STOP_RULE = "That a trial was stopped depends on rules agreed beforehand"
SKIPS = "Windows that ended in no update: half 3 of 60 windows"
SIGNS = "With fewer than 6 seeds no test of signs"
SHIPPED = "The result is the mean of the chosen arm"


@pytest.mark.parametrize(
    ("kind", "said", "not_said"),
    [
        ("answered", [SETTINGS, SIGNS, SHIPPED], [STOP_RULE, SKIPS]),
        ("ruined", [SETTINGS, STOP_RULE], [SIGNS, SHIPPED, SKIPS]),
        ("hostile", [SETTINGS, STOP_RULE, SKIPS], [SIGNS, SHIPPED]),
        ("young", [SETTINGS, "with one seed nothing was repeated"], [SIGNS, STOP_RULE]),
    ],
)
def test_a_caveat_is_there_when_it_applies(kind, said, not_said, dossiers):
    text = " ".join(limits(dossiers[kind]))

    assert [each for each in said if each not in text] == []
    assert [each for each in not_said if each in text] == []


@pytest.mark.parametrize(
    "kind",
    ["answered", "ruined", "young", "cut_short", "extended", "hostile", "batches", "reopened"],
)
def test_no_caveat_is_said_twice(kind, dossiers):
    said = limits(dossiers[kind])

    assert len(said) == len(set(said))


def test_the_last_finite_losses_stand_beside_the_stop_rule(dossiers):
    (rule,) = [each for each in limits(dossiers["hostile"]) if each.startswith(STOP_RULE)]

    assert rule.endswith(
        "diverged is a validation loss 1 nats above the initial one at 2 evaluations in a row. "
        "Last finite losses: half/0 1.9, half/1 1.9 and half/2 1.9."
    )


def test_holm_and_the_simultaneous_interval_may_disagree(dossiers):
    found = dossiers["answered"].comparison
    difference = dataclasses.replace(
        found.arms[0].difference, p_holm=0.044, simultaneous=Interval(-0.0021, 0.0229)
    )
    arm = dataclasses.replace(found.arms[0], difference=difference)
    comparison = dataclasses.replace(found, arms=(arm,))

    said = limits(dataclasses.replace(dossiers["answered"], comparison=comparison))

    assert any("the interval that counts all arms still touches 0" in each for each in said)


def test_a_study_of_batch_size_says_that_updates_differ(dossiers):
    comparison = dataclasses.replace(dossiers["answered"].comparison, kind=StudyKind.BATCH_SIZE)

    said = limits(dataclasses.replace(dossiers["answered"], comparison=comparison))

    assert (
        "At the same number of target tokens the arms made different numbers of updates: "
        "baseline 200, half 200 and double 200 in all their trials together." in said
    )


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (StudyKind.RATE, "rank, batch size, schedule, precision, data set"),
        (StudyKind.BATCH_SIZE, "rank, rate, schedule, precision, data set"),
        (StudyKind.PRECISION, "rank, rate, batch size, schedule, data set"),
    ],
)
def test_the_answer_is_for_the_settings_beside_the_factor(dossiers, kind, named):
    comparison = dataclasses.replace(dossiers["answered"].comparison, kind=kind)

    said = limits(dataclasses.replace(dossiers["answered"], comparison=comparison))

    assert f"at another model, {named} or budget it may be another." in said[0]
    own = [each for each in said if each.startswith("Every arm was trained and evaluated in its")]
    assert len(own) == (kind is StudyKind.PRECISION)
