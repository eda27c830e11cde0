"""Whether seconds may be compared between arms."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import StudyKind
from sweeper.selection.throughput import throughput

CURVE = [2.1, 1.8, 1.7, 1.65, 1.6]


@pytest.fixture
def study(make_study, follow):
    """Two seeds of each arm; a thousand target tokens take as many seconds as the test says."""

    def build(**seconds):
        entries = {arm: [1.6, 1.61] for arm in seconds}
        return follow(make_study(entries), {arm: [CURVE] * 2 for arm in seconds}, seconds=seconds)

    return build


def test_a_target_token_s_time_is_taken_over_all_completed_trials_of_an_arm(study, alter):
    """Seeds of half took 2000 and 1000 s for a million target tokens each."""
    slow = study(half=2.0, baseline=1.0)
    quick = slow.cell("baseline", 0).evaluations
    found = throughput(alter(slow, "half", 1, evaluations=quick))

    assert found.seconds_per_1000_target_tokens == {"half": 1.5, "baseline": 1.0}
    assert found.spread == 0.5


@pytest.mark.parametrize(("half", "is_noisy"), [(1.04, False), (1.06, True), (0.94, True)])
def test_arms_that_differ_by_more_than_5_percent_are_not_ranked(study, half, is_noisy):
    found = throughput(study(half=half, baseline=1.0))

    assert found.is_noisy is is_noisy
    assert (found.sentence is not None) is is_noisy


def test_noise_is_said_in_words_and_takes_the_seconds_out_of_the_times(study):
    noisy = compare(dataclasses.replace(study(half=1.25, baseline=1.0), target_loss=1.7))
    quiet = compare(dataclasses.replace(study(half=1.0, baseline=1.0), target_loss=1.7))

    assert noisy.throughput.sentence == (
        "Wall-clock is noisy on this machine: a target token took up to 25 % longer in one arm "
        "than in another, and a rate changes no work. Arms are not ranked by seconds."
    )
    assert "s of training" not in noisy.arms[0].time_to_target.sentence
    assert "(250 to 500 s of training)" in quiet.arms[0].time_to_target.sentence


@pytest.mark.parametrize("kind", [StudyKind.BATCH_SIZE, StudyKind.PRECISION])
def test_another_factor_changes_the_work_so_its_seconds_are_a_finding(study, kind):
    found = throughput(dataclasses.replace(study(half=2.0, baseline=1.0), kind=kind))

    assert (found.spread, found.is_noisy, found.sentence) == (1.0, False, None)


def test_trials_that_did_not_complete_take_no_part(make_study, follow):
    study = make_study({"half": [1.6, Reason.DIVERGED], "baseline": [Reason.KILLED] * 2})
    study = follow(study, {arm: [CURVE] * 2 for arm in ("half", "baseline")})
    found = throughput(study)

    assert found.seconds_per_1000_target_tokens == {"half": 1.0, "baseline": None}
    assert found.spread is None


def test_a_trial_without_seconds_on_record_leaves_its_arm_unknown(study, alter):
    known = study(half=1.0, baseline=1.0)
    points = known.cell("half", 0).evaluations
    unknown = tuple(dataclasses.replace(point, training_seconds=None) for point in points)
    found = throughput(alter(known, "half", 0, evaluations=unknown))

    assert found.seconds_per_1000_target_tokens["half"] is None
