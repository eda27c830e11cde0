"""The further arm beyond an edge: its rate, its name and its round."""

from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.selection.boundary import judge_boundary
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import Arm
from sweeper.selection.extension import next_arm

WOBBLE = [0.000, 0.001, -0.001, 0.002, -0.002]
SHAKE = [0.001, 0.002, -0.002, -0.001, 0.000]


def level(mean, wobble=WOBBLE):
    return [mean + part for part in wobble]


RISING = {"half": level(1.5), "baseline": level(1.6, SHAKE), "double": level(1.7)}
FALLING = {"half": level(1.7), "baseline": level(1.6, SHAKE), "double": level(1.5)}


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (RISING, Arm(name="x0.25", value=5e-5, round=1)),
        (FALLING, Arm(name="x4", value=8e-4, round=1)),
        (RISING | {"x0.25": level(1.4)}, Arm(name="x0.125", value=2.5e-5, round=2)),
        (FALLING | {"x4": level(1.4)}, Arm(name="x8", value=1.6e-3, round=2)),
    ],
)
def test_the_next_arm_is_one_step_beyond_the_edge(make_study, losses, expected):
    boundary = compare(make_study(losses, extensions=2, closed=False)).boundary

    assert boundary.next_arm == expected
    assert boundary.sentence.endswith(
        f"the range is not bracketed. The next arm is {expected.name} ({expected.value:g})."
    )


@pytest.mark.parametrize(
    ("losses", "extensions"),
    [
        (RISING, 0),
        (RISING | {"x0.25": level(1.4)}, 1),
        (RISING | {"x0.25": level(1.4), "x0.125": level(1.3)}, 2),
    ],
)
def test_no_more_arms_follow_than_were_agreed(make_study, losses, extensions):
    boundary = compare(make_study(losses, extensions=extensions, closed=False)).boundary

    assert boundary.kind == "edge"
    assert boundary.next_arm is None
    assert boundary.sentence.endswith("the range is not bracketed.")


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        ({**FALLING, "double": level(1.7)}, "bracketed"),
        ({**FALLING, "double": [Reason.DIVERGED] * 5, "half": level(1.601)}, "edge_of_stability"),
        ({**FALLING, "double": level(1.601)}, "flat"),
    ],
)
def test_only_an_edge_is_extended(make_study, losses, kind):
    """At the edge of stability a higher rate would fail as well: that is another study."""
    boundary = compare(make_study(losses, extensions=2, closed=False)).boundary

    assert (boundary.kind, boundary.next_arm) == (kind, None)


def test_a_closed_study_goes_on_with_nothing(make_study):
    boundary = compare(make_study(RISING, extensions=2, closed=True)).boundary

    assert (boundary.kind, boundary.next_arm) == ("edge", None)


def test_no_arm_follows_where_the_baseline_itself_was_stopped(make_study):
    """Nothing can be shown to be better than a baseline that fails."""
    baseline = [*level(1.6, SHAKE)[:4], Reason.DIVERGED]
    boundary = compare(
        make_study({**FALLING, "baseline": baseline}, extensions=2, closed=False)
    ).boundary

    assert (boundary.kind, boundary.best, boundary.next_arm) == ("edge", "double", None)


def test_no_arm_follows_with_a_rate_that_no_trial_takes(make_study):
    """Beyond 0.6 comes 1.2, and no learning rate is above 1."""
    values = {"baseline": 0.3, "double": 0.6}
    study = make_study(
        {"baseline": level(1.6), "double": level(1.5)}, values=values, extensions=1, closed=False
    )

    assert next_arm(study, "double") is None
    assert next_arm(study, "baseline").value == 0.15


def test_nothing_lies_beyond_an_arm_that_is_an_edge_only_because_its_neighbour_cannot_be_chosen(
    make_study, retain
):
    study = make_study(
        {"half": level(1.599), "baseline": level(1.6, SHAKE), "double": level(1.601)},
        extensions=2,
        closed=False,
    )
    retained = retain(study, {"half": [3.5] * 5, "baseline": level(3.0), "double": level(3.0)})
    boundary = judge_boundary(retained, frozenset({"baseline", "double"}))

    assert (boundary.kind, boundary.best, boundary.next_arm) == ("edge", "baseline", None)


def test_a_name_that_is_taken_is_not_used_twice(make_study):
    values = {"x4": 1e-4, "baseline": 2e-4, "double": 4e-4}
    study = make_study(
        {"x4": level(1.7), "baseline": level(1.6), "double": level(1.5)},
        values=values,
        extensions=2,
        closed=False,
    )

    assert next_arm(study, "double").name == "x4_"


def test_an_extension_enlarges_the_family_and_has_its_round(make_study):
    """Differences .0010 +- .0003 of two of three arms; p is multiplied by 3, not by 2."""
    before = compare(make_study(RISING))
    after = compare(make_study(RISING | {"x0.25": level(1.4)}))
    half = before.arms[0].difference, after.arms[0].difference
    (note,) = after.arms[2].notes

    assert [arm.summary.round for arm in after.arms] == [0, 0, 1]
    assert after.baseline.round == 0
    assert half[0].simultaneous_level == 1 - 0.05 / 2
    assert half[1].simultaneous_level == 1 - 0.05 / 3
    assert half[1].resolution > half[0].resolution
    assert note == (
        "x0.25 is an extension, added in round 1 because the best rate was at the edge; the test "
        "counts 3 arms."
    )


def test_rates_given_as_values_go_on_by_twice_the_best_one_named_by_its_multiple(make_study):
    """0.3 is 1.5 times the baseline; its double is three times that."""
    values = {"low": 0.1, "baseline": 0.2, "high": 0.3}
    losses = {"low": level(1.7), "baseline": level(1.6, SHAKE), "high": level(1.5)}
    study = make_study(losses, values=values, extensions=1, closed=False)

    assert next_arm(study, "high") == Arm(name="x3", value=0.6, round=1)
    assert next_arm(study, "low") == Arm(name="x0.25", value=0.05, round=1)
