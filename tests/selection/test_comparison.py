from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import QuestionKind, StudyKind

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]

UNHURRIED = settings(deadline=None)
"""A loaded machine is no failure."""

losses = st.integers(1024, 3072).map(lambda k: k / 1024)
"""Exact in binary, so that a shift of all of them loses no digit."""

entries = st.one_of(losses, losses, st.sampled_from(Reason).filter(lambda r: r != "budget_reached"))
anything = st.one_of(entries, st.none(), st.just(math.nan), st.just(math.inf))


@st.composite
def tables(draw, entry, arms=("half", "baseline", "double")):
    n = draw(st.integers(3, 6))
    return {arm: draw(st.lists(entry, min_size=n, max_size=n)) for arm in arms}


def failing(table, seed, reason):
    """Half of the table, with the trial of one seed stopped."""
    half = [reason if index == seed else entry for index, entry in enumerate(table["half"])]
    return {"half": half}


def numbers(comparison):
    """What is said of each arm, without the seed-by-seed list and the sentences."""
    return {
        arm.arm: (
            arm.verdict.label,
            arm.is_eligible,
            arm.summary,
            None if arm.difference is None else dataclasses.replace(arm.difference, by_seed=()),
        )
        for arm in comparison.arms
    }


@UNHURRIED
@given(tables(anything), st.booleans())
def test_any_mixture_of_endings_gives_a_comparison_that_is_plain_json(make_study, table, closed):
    study = make_study(table, closed=closed)
    text = json.dumps(compare(study).to_json(), allow_nan=False)

    assert json.loads(text)["question"] == "rate_too_high"


@UNHURRIED
@given(tables(anything), st.randoms())
def test_the_order_of_cells_changes_nothing(make_study, table, random):
    study = make_study(table)
    cells = list(study.cells)
    random.shuffle(cells)

    assert compare(dataclasses.replace(study, cells=tuple(cells))) == compare(study)


@UNHURRIED
@given(tables(anything), st.permutations(range(6)))
def test_the_order_of_seeds_changes_no_number_and_no_verdict(make_study, table, order):
    study = make_study(table)
    kept = [index for index in order if index < len(study.seeds)]
    permuted = dataclasses.replace(study, seeds=tuple(study.seeds[index] for index in kept))
    ours, theirs = compare(permuted), compare(study)

    assert numbers(ours) == numbers(theirs)
    assert (ours.baseline, ours.choice.arm, ours.answer.word) == (
        theirs.baseline,
        theirs.choice.arm,
        theirs.answer.word,
    )


def along_the_way(comparison):
    """What is said of each arm's way and records, without the seed-by-seed lists."""
    times = [comparison.baseline_time_to_target, *(a.time_to_target for a in comparison.arms)]
    return (
        [None if time is None else dataclasses.replace(time, by_seed=()) for time in times],
        [comparison.baseline_slope, *(arm.slope for arm in comparison.arms)],
        [arm.examples for arm in comparison.arms],
        comparison.target,
        comparison.throughput,
    )


@UNHURRIED
@given(tables(losses), st.permutations(range(6)), st.randoms())
def test_the_order_of_seeds_and_records_changes_nothing_along_the_way(
    make_study, follow, score, table, order, random
):
    ways = {arm: [[2.9, e + 0.5, e + 0.25, e + 0.125, e] for e in es] for arm, es in table.items()}
    study = follow(make_study(table), ways)
    records = list(range(8))
    random.shuffle(records)
    ours, theirs = (
        compare(
            score(
                dataclasses.replace(study, seeds=seeds),
                [place + 1 for place in places],
                [str(place // 2) for place in places],
                {
                    (c.arm, c.seed): [c.endpoint * (place + 1 + place % 3) for place in places]
                    for c in study.cells
                },
            )
        )
        for seeds, places in (
            (study.seeds, list(range(8))),
            (tuple(study.seeds[k] for k in order if k < len(study.seeds)), records),
        )
    )

    assert along_the_way(ours) == along_the_way(theirs)


@UNHURRIED
@given(tables(anything), st.integers(0, 5), st.sampled_from([Reason.DIVERGED, Reason.NO_UPDATES]))
def test_a_failed_trial_never_improves_an_arm(make_study, table, place, reason):
    seed = place % len(table["half"])
    assume(not isinstance(table["half"][seed], Reason))
    before = compare(make_study(table))
    after = compare(make_study(table | failing(table, seed, reason)))
    was, now = before.arms[0], after.arms[0]

    assert not now.is_eligible
    assert after.choice.arm != "half"
    assert (now.summary.failure_rate or 0) >= (was.summary.failure_rate or 0)
    assert now.summary.n_stopped >= was.summary.n_stopped
    assert now.verdict.kind not in {"better", "better:provisional"}


@UNHURRIED
@given(tables(losses), st.integers(0, 5))
def test_a_failed_trial_never_improves_a_rank(make_study, table, place):
    before = compare(make_study(table)).arms[0]
    after = compare(make_study(table | failing(table, place % len(table["half"]), Reason.DIVERGED)))
    now = after.arms[0]

    assert now.summary.capped_mean >= before.summary.capped_mean
    assert now.difference.paired_improvement <= before.difference.paired_improvement
    assert now.difference.all_pairs_improvement <= before.difference.all_pairs_improvement


@UNHURRIED
@given(tables(losses), st.integers(0, 4))
def test_a_loss_shifted_everywhere_leaves_the_differences_unchanged(make_study, table, shift):
    moved = {arm: [loss + shift for loss in entries] for arm, entries in table.items()}
    before, after = compare(make_study(table)), compare(make_study(moved))

    assert [arm.difference.by_seed for arm in after.arms] == [
        arm.difference.by_seed for arm in before.arms
    ]
    assert [arm.verdict.sentence for arm in after.arms] == [
        arm.verdict.sentence for arm in before.arms
    ]


MIRRORED = {
    "better": "worse",
    "worse": "better",
    "better:provisional": "worse:provisional",
    "worse:provisional": "better:provisional",
}


@UNHURRIED
@given(tables(losses, arms=("half", "baseline")))
def test_swapping_arm_and_baseline_negates_the_difference_and_flips_the_verdict(make_study, table):
    assume(min(len(set(entries)) for entries in table.values()) > 1)
    swapped = {"half": table["baseline"], "baseline": table["half"]}
    (ours,), (theirs,) = compare(make_study(table)).arms, compare(make_study(swapped)).arms

    assert theirs.difference.mean == -ours.difference.mean
    assert theirs.difference.p == ours.difference.p
    assert theirs.verdict.label == MIRRORED.get(ours.verdict.label, ours.verdict.label)


@UNHURRIED
@given(
    st.lists(losses, min_size=3, max_size=6, unique=True),
    st.integers(1, 64),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_a_clear_difference_flips_when_arm_and_baseline_are_swapped(
    make_study, baseline, step, wobble
):
    """Differences of -(16 + wobble) x step / 1024: clear in every seed."""
    arm = [loss - (16 + shake) * step / 1024 for loss, shake in zip(baseline, wobble, strict=False)]
    assume(len(set(wobble[: len(baseline)])) > 1)
    ahead = compare(make_study({"half": arm, "baseline": baseline})).arms[0]
    behind = compare(make_study({"half": baseline, "baseline": arm})).arms[0]

    assert ahead.verdict.label.startswith("better")
    assert behind.verdict.label == MIRRORED[ahead.verdict.label]


@UNHURRIED
@given(tables(losses))
def test_a_holm_p_is_never_below_the_raw_one(make_study, table):
    found = [arm.difference for arm in compare(make_study(table)).arms]

    assert all(each.p is None or each.p_holm >= each.p for each in found)


@UNHURRIED
@given(st.lists(losses, min_size=2, max_size=5), st.integers(0, 5), st.sampled_from(["nan", "inf"]))
def test_a_loss_that_is_no_number_is_never_the_lowest(make_study, known, place, what):
    half = [*known[:place], float(what), *known[place:]]
    found = compare(make_study({"half": half, "baseline": [1.5] * len(half)}))
    summary = found.arms[0].summary

    assert summary.minimum == min(known)
    assert summary.n_stopped == 1
    assert found.arms[0].verdict.label == f"unstable:1/{len(half)}"
    assert found.choice.arm == "baseline"


def test_a_comparison_says_everything_at_once(make_study):
    found = compare(
        make_study({"half": HALF, "baseline": BASELINE, "double": [Reason.DIVERGED] * 5})
    )

    assert [arm.verdict.label for arm in found.arms] == ["better", "unstable:5/5"]
    assert found.baseline.n_completed == 5
    assert found.boundary.kind == "edge"
    assert found.answer.word == "yes"
    assert not found.is_partial


def test_lr_sensitivity_counts_a_failed_arm_at_the_initial_loss(make_study, alter):
    """Means 1.5914, 1.602 and the initial loss 2.1: mean 1.764467 less 1.5914."""
    study = make_study({"half": HALF, "baseline": BASELINE, "double": [Reason.DIVERGED] * 5})
    unknown = alter(study, "baseline", 0, initial_loss=None)

    assert compare(study).lr_sensitivity == pytest.approx(0.173067, abs=1e-6)
    assert compare(unknown).lr_sensitivity is None


@pytest.mark.parametrize("rules", [{"kind": StudyKind.BATCH_SIZE}, {"kind": StudyKind.PRECISION}])
def test_lr_sensitivity_and_boundary_are_for_rates_only(make_study, rules):
    found = compare(make_study({"half": HALF, "baseline": BASELINE}, **rules))

    assert found.lr_sensitivity is None
    assert found.boundary is None


def test_lr_sensitivity_waits_for_every_trial(make_study):
    study = make_study({"half": [*HALF[:4], Reason.KILLED], "baseline": BASELINE})

    assert compare(study).lr_sensitivity is None


def test_precisions_are_those_that_trials_report(make_study, alter):
    study = make_study({"half": [*HALF[:4], None], "baseline": BASELINE}, closed=False)
    mixed = alter(study, "half", 1, environment={"precision": "bfloat16"})
    unknown = alter(study, "half", 1, environment={"device": "cpu"})
    begun = make_study({"half": [None], "baseline": [None]}, closed=False)

    assert compare(study).precisions == ("float32",)
    assert compare(mixed).precisions == ("bfloat16", "float32")
    assert compare(unknown).precisions == ("float32", "not recorded")
    assert compare(begun).precisions == ()


def test_json_has_names_of_the_closed_sets_and_none_for_what_is_unknown(make_study):
    study = make_study({"half": HALF[:1], "baseline": BASELINE[:1]}, question=QuestionKind.WHICH)
    plain = compare(study).to_json()
    half = plain["arms"][0]

    assert plain["kind"] == "rate"
    assert plain["seeds"] == [0]
    assert half["verdict"]["kind"] == "no_claim:too_few_seeds"
    assert half["difference"]["sd"] is None
    assert half["difference"]["by_seed"][0]["seed"] == 0
    assert half["summary"]["reasons"] == {"budget_reached": 1}
    assert half["summary"]["failure_interval"]["low"] == 0.0
    assert half["retention"]["verdict"] == "not_measured"


def test_a_baseline_that_ends_above_its_initial_loss_is_noted(make_study):
    comparison = compare(make_study({"half": [1.59, 1.60, 1.61], "baseline": [2.2, 1.60, 2.3]}))

    assert comparison.baseline_notes == (
        "baseline ended above its initial loss in 2 of 3 completed trials.",
    )


def test_nothing_is_said_of_the_range_beside_an_arm_that_is_not_comparable(make_study, alter):
    study = make_study({"half": [1.59, 1.60, 1.61], "baseline": [1.63, 1.61, 1.62]})
    assert compare(study).boundary is not None

    broken = compare(alter(study, "half", 0, initial_digest="other tensors"))

    assert broken.arms[0].breaks
    assert broken.boundary is None
