"""The two numbers that describe the rates compared, and what each does not say."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import StudyKind

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]
DIVERGED = [Reason.DIVERGED] * 5
WOBBLE = [0.000, 0.001, -0.001, 0.002, -0.002]
SHAKE = [0.001, 0.002, -0.002, -0.001, 0.000]


def level(mean, wobble=WOBBLE):
    return [mean + part for part in wobble]


def test_the_sensitivity_is_told_with_its_range_and_against_being_compared(make_study):
    """Means 1.5914, 1.602 and, of the arm that diverged, the initial 2.1: 1.764467 - 1.5914."""
    found = compare(make_study({"half": HALF, "baseline": BASELINE, "double": DIVERGED}))
    (note,) = found.rate_notes

    assert note == (
        "Learning rate sensitivity: over the 3 rates from 0.0001 to 0.0004 an arm's loss is on "
        "average 0.1731 nats per target token above the lowest arm's; a trial counts with at most "
        "its initial loss, a stopped one with that. The number depends on the range and on its "
        "steps, and is not to be compared with published values, which are of others."
    )


def test_the_vertex_is_what_the_means_are_consistent_with_and_no_recommendation(make_study):
    """Case T09a: 0.890899 of the rate 0.0002."""
    losses = {"half": level(1.58), "baseline": level(1.60, SHAKE), "double": level(1.62)}
    bent = losses | {"half": level(1.60), "baseline": level(1.58, SHAKE)}
    found = compare(make_study(bent))

    assert found.rate_notes[0] == (
        "The means at half, once and twice the baseline's rate are consistent with a lowest loss "
        "near 0.00018, by the parabola through them. It describes three points, and recommends no "
        "rate."
    )
    assert len(compare(make_study(losses)).rate_notes) == 1, "on a line there is no lowest point"


@pytest.mark.parametrize("kind", [StudyKind.BATCH_SIZE, StudyKind.PRECISION])
def test_other_factors_are_not_described_so(make_study, kind):
    assert compare(make_study({"half": HALF, "baseline": BASELINE}, kind=kind)).rate_notes == ()


def test_with_a_trial_missing_or_not_comparable_nothing_is_described(make_study, alter):
    whole = make_study({"half": HALF, "baseline": BASELINE, "double": level(1.7)})
    broken = alter(whole, "half", 0, initial_digest="other tensors")
    missing = dataclasses.replace(whole, cells=whole.cells[1:], closed=False)

    assert len(compare(whole).rate_notes) == 2
    assert compare(broken).rate_notes == compare(missing).rate_notes == ()
    assert compare(broken).lr_sensitivity is None


def test_equal_arms_have_a_sensitivity_of_0_and_stopped_ones_none(make_study):
    """Arms that all count with their initial loss are not insensitive to the rate."""
    equal = compare(make_study(dict.fromkeys(("half", "baseline", "double"), BASELINE)))
    stopped = compare(make_study(dict.fromkeys(("half", "baseline", "double"), DIVERGED)))

    assert equal.lr_sensitivity == 0
    assert (stopped.lr_sensitivity, stopped.rate_notes) == (None, ())


def test_the_json_has_the_sentences_beside_the_numbers(make_study):
    found = compare(make_study({"half": HALF, "baseline": BASELINE}))

    assert found.to_json()["rate_notes"] == list(found.rate_notes)
    assert found.lr_sensitivity == pytest.approx(0.0053), "(1.602 - 1.5914) / 2"
