from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.boundary import BoundaryKind, judge_boundary
from sweeper.selection.evidence import StudyKind

WOBBLE = [0.000, 0.001, -0.001, 0.002, -0.002]
SHAKE = [0.001, 0.002, -0.002, -0.001, 0.000]


def level(mean, wobble=WOBBLE):
    return [mean + part for part in wobble]


def judged(make_study, losses, eligible=None, **rules):
    study = make_study(losses, **rules)
    complete = {
        arm for arm, entries in losses.items() if not any(isinstance(e, Reason) for e in entries)
    }
    return judge_boundary(study, frozenset(complete if eligible is None else eligible))


@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_best_arm_and_vertex_of_case_t09(make_study, cases, case):
    half, baseline, double = cases["T09"]["given"][case]
    expected = cases["T09"]["expect"][case]
    found = judged(
        make_study,
        {"half": level(half), "baseline": level(baseline, SHAKE), "double": level(double)},
    )

    assert found.best == expected["best"]
    assert found.vertex_log2 == (
        None
        if expected["vertex_log2"] is None
        else pytest.approx(expected["vertex_log2"], abs=1e-9)
    )


@pytest.mark.parametrize(
    ("half", "baseline", "double", "kind"),
    [
        (1.70, 1.60, 1.70, BoundaryKind.BRACKETED),
        (1.601, 1.60, 1.70, BoundaryKind.FLAT),
        (1.50, 1.60, 1.70, BoundaryKind.EDGE),
        (1.70, 1.60, 1.50, BoundaryKind.EDGE),
    ],
)
def test_where_the_best_rate_lies(make_study, half, baseline, double, kind):
    found = judged(
        make_study,
        {"half": level(half), "baseline": level(baseline, SHAKE), "double": level(double)},
    )

    assert found.kind is kind


def test_a_failing_neighbour_brackets_as_well(make_study):
    losses = {
        "half": level(1.70),
        "baseline": level(1.60, SHAKE),
        "double": [Reason.DIVERGED] * 5,
    }

    assert judged(make_study, losses).kind is BoundaryKind.BRACKETED


@pytest.mark.parametrize("half", [1.601, 1.60])
def test_the_highest_rate_that_did_not_fail_is_the_edge_of_stability(make_study, half):
    losses = {
        "half": level(half),
        "baseline": level(1.60 - 1e-4, SHAKE),
        "double": [Reason.DIVERGED] * 5,
    }
    found = judged(make_study, losses)

    assert found.kind is BoundaryKind.EDGE_OF_STABILITY
    assert found.sentence == (
        "baseline has the highest rate that did not fail; the range is not bracketed. Warm-up or "
        "clipping would be a study of its own."
    )


@pytest.mark.parametrize(
    ("half", "double", "eligible", "inward"),
    [
        (1.601, 2.13, ("half", "baseline"), "half"),
        (2.13, 1.601, ("baseline", "double"), "double"),
    ],
    ids=["the highest that can be chosen", "the lowest that can be chosen"],
)
def test_a_worse_rate_beyond_ends_the_range_also_where_it_cannot_be_chosen(
    make_study, half, double, eligible, inward
):
    """Its neighbour is 0.53 higher, and fails the retention guard alone."""
    losses = {"half": level(half), "baseline": level(1.6, SHAKE), "double": level(double)}
    found = judged(make_study, losses, eligible, closed=False, extensions=2)

    assert (found.kind, found.best, found.next_arm) == (BoundaryKind.FLAT, "baseline", None)
    assert found.sentence == (
        f"The loss is flat within noise around baseline: {inward} is not shown to be worse."
    )


@pytest.mark.parametrize(
    ("half", "double", "eligible"),
    [
        (1.70, 1.599, ("half", "baseline")),
        (1.599, 1.70, ("baseline", "double")),
        (1.70, 1.599, ("baseline",)),
    ],
)
def test_a_rate_beyond_that_is_not_worse_and_cannot_be_chosen_leaves_the_edge_open(
    make_study, half, double, eligible
):
    losses = {"half": level(half), "baseline": level(1.6, SHAKE), "double": level(double)}
    found = judged(make_study, losses, eligible)

    assert (found.kind, found.best) == (BoundaryKind.EDGE, "baseline")
    assert "the optimum may lie beyond; the range is not bracketed" in found.sentence


def test_arms_are_ordered_by_rate_and_not_as_declared(make_study):
    losses = {
        "double": level(1.70),
        "quarter": level(1.72),
        "baseline": level(1.65),
        "half": level(1.60, SHAKE),
    }

    assert judged(make_study, losses).kind is BoundaryKind.BRACKETED


@pytest.mark.parametrize("seen", [2, 4])
def test_a_neighbour_seen_in_a_part_of_the_seeds_is_not_beaten(make_study, seen):
    part = [*level(1.7)[:seen], *[Reason.KILLED] * (5 - seen)]
    losses = {"half": part, "baseline": level(1.6, SHAKE), "double": part}

    found = judged(make_study, losses, eligible=losses)

    assert found.kind is BoundaryKind.FLAT
    assert found.sentence == (
        "The loss is flat within noise around baseline: half and double are not shown to be worse."
    )


@pytest.mark.parametrize(("seeds", "is_judged"), [(1, False), (2, False), (3, True)])
def test_with_fewer_seeds_than_a_claim_takes_nothing_is_said_of_the_range(
    make_study, seeds, is_judged
):
    losses = {"half": level(1.7)[:seeds], "baseline": level(1.6, SHAKE)[:seeds]}

    assert (judged(make_study, losses) is not None) is is_judged


def test_a_neighbour_that_differs_by_one_constant_is_not_beaten(make_study):
    """The seed does not reach the losses then, and nothing is claimed from them."""
    losses = {"half": level(1.7), "baseline": level(1.6), "double": level(1.7)}

    assert judged(make_study, losses).kind is BoundaryKind.FLAT


def test_the_vertex_needs_half_baseline_and_double(make_study):
    losses = {"quarter": level(1.7), "baseline": level(1.6, SHAKE), "double": level(1.7)}

    assert judged(make_study, losses).vertex_log2 is None


def test_an_open_study_has_no_boundary_yet(make_study):
    losses = {"half": [1.6, 1.7, None], "baseline": [1.6, 1.7, 1.8]}

    assert judged(make_study, losses, closed=False) is None


def test_without_an_eligible_arm_there_is_no_boundary(make_study):
    losses = {"half": level(1.6), "baseline": level(1.7)}

    assert judged(make_study, losses, eligible=()) is None


def test_the_boundary_is_for_rates_only(make_study):
    study = make_study({"half": level(1.6), "baseline": level(1.7)})
    other = dataclasses.replace(study, kind=StudyKind.BATCH_SIZE)

    assert judge_boundary(study, frozenset({"half"})) is not None
    assert judge_boundary(other, frozenset({"half"})) is None
