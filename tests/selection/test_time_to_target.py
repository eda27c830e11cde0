"""When arms reached the target loss, and how never having reached it is counted."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.time_to_target import caveat, find_target, time_to_target

UNHURRIED = settings(deadline=None)
"""A loaded machine is no failure."""

BASELINE = [1.60, 1.605, 1.595]
CURVES = [
    [2.1, 1.8, 1.7, 1.62, 1.60],
    [2.1, 1.82, 1.71, 1.63, 1.605],
    [2.1, 1.81, 1.69, 1.615, 1.595],
]
"""Of the baseline in case T07, at 0, 250000, 500000, 750000 and 1000000 target tokens."""


@pytest.fixture
def t07(cases, make_study, follow):
    given_ = cases["T07"]["given"]
    curves = {"half": given_["half"], "baseline": given_["base"]}
    finals = {arm: [curve[-1] for curve in of_arm] for arm, of_arm in curves.items()}
    return follow(make_study(finals, target_loss=given_["target"]), curves)


def timed(study, arm="baseline", *, with_seconds=False):
    return time_to_target(study, arm, find_target(study), with_seconds=with_seconds)


def one_trial(make_study, follow, curve, *, half=None, **rules):
    """Half with one seed and this curve; its loss at the end is the last one."""
    rules = {"target_loss": 1.62} | rules
    entry = curve[-1] if half is None else half
    study = make_study({"half": [entry], "baseline": [1.6]}, **rules)
    return follow(study, {"half": [curve], "baseline": [[2.1, 1.6]]})


@pytest.mark.parametrize(("arm", "name"), [("baseline", "base"), ("half", "half")])
def test_when_each_trial_of_case_t07_arrived(t07, cases, arm, name):
    found = timed(t07, arm)

    assert [time.target_tokens for time in found.by_seed] == cases["T07"]["expect"][f"{name}_at"]


def test_medians_counts_and_restricted_means_of_case_t07(t07, cases):
    expected = cases["T07"]["expect"]
    baseline, half = timed(t07), timed(t07, "half")

    assert baseline.median_target_tokens == expected["base_median"]
    assert half.median_target_tokens == expected["half_median"]
    assert [time.is_confirmed for time in baseline.by_seed] == expected["base_confirmed"]
    assert f"{half.n_reached}/{half.n}" == expected["half_reached"]
    assert baseline.restricted_mean_target_tokens == pytest.approx(
        expected["restricted_mean_to_1M"]["base"], abs=1e-3
    )
    assert half.restricted_mean_target_tokens == expected["restricted_mean_to_1M"]["half"]


def test_the_brackets_of_case_t07_are_the_evaluations_around_the_crossing(t07):
    baseline, half = timed(t07), timed(t07, "half")

    assert [time.after_target_tokens for time in baseline.by_seed] == [500_000, 750_000, 500_000]
    assert baseline.median_after_target_tokens == 500_000
    assert half.by_seed[0].after_target_tokens == 1_000_000
    assert half.median_after_target_tokens == 750_000


def test_the_sentences_of_case_t07(t07):
    assert timed(t07).sentence == (
        "baseline reached it in 3 of 3 seeds (1 at the last evaluation, unconfirmed); "
        "median: after 500000 and by 750000 target tokens."
    )
    assert timed(t07, "half").sentence == (
        "half reached it in 2 of 3 seeds (2 at the last evaluation, unconfirmed); median: "
        "after 750000 and by 1000000 target tokens."
    )


@pytest.mark.parametrize(
    ("curve", "after", "at", "is_confirmed"),
    [
        ([2.1, 1.8, 1.62, 1.61, 1.60], 250_000, 500_000, True),
        ([2.1, 1.8, 1.61, 1.63, 1.60], 750_000, 1_000_000, False),
        ([2.1, 1.61, 1.63, 1.62, 1.62], 500_000, 750_000, True),
        ([2.1, 1.7, 1.61, 1.61, 1.7], 250_000, 500_000, True),
        ([2.1, 1.7, 1.61, 1.7, 1.61], 750_000, 1_000_000, False),
        ([2.1, 1.7, None, 1.61, 1.60], 500_000, 750_000, True),
        ([2.1, 1.8, 1.61, 1.7, 1.63], 1_000_000, None, False),
        ([2.1, 1.9, 1.8, 1.7, 1.63], 1_000_000, None, False),
    ],
    ids=[
        "an equal loss counts",
        "one low evaluation is not confirmed by a high one",
        "the first of two counts, not the first low one",
        "what comes after the confirmation does not count",
        "the last one has no next one",
        "a loss that is not finite is not at the target",
        "touched once and never held",
        "never",
    ],
)
def test_a_crossing_needs_the_next_evaluation(make_study, follow, curve, after, at, is_confirmed):
    found = timed(one_trial(make_study, follow, curve), "half").by_seed[0]

    assert (found.after_target_tokens, found.target_tokens) == (after, at)
    assert found.is_confirmed is is_confirmed


def test_never_is_right_censored_at_the_last_evaluation(make_study, follow):
    found = timed(one_trial(make_study, follow, [2.1, 1.9, 1.8, 1.7, 1.63]), "half")

    assert (found.median_target_tokens, found.median_after_target_tokens) == (None, 1_000_000)
    assert found.sentence == (
        "half reached it in 0 of 1 seed; median: not reached, more than 1000000 target tokens."
    )


def test_with_an_even_number_one_never_in_the_middle_makes_the_median_never(make_study, follow):
    study = make_study({"half": [1.6, 1.7], "baseline": [1.6, 1.61]}, target_loss=1.62)
    fast, never = [2.1, 1.6, 1.6, 1.6, 1.6], [2.1, 1.9, 1.8, 1.75, 1.7]
    study = follow(study, {"half": [fast, never], "baseline": [fast, fast]})
    found = timed(study, "half")

    assert found.median_target_tokens is None
    assert found.restricted_mean_target_tokens == 625_000  # (250000 + 1000000) / 2
    assert timed(study).median_target_tokens == 250_000


@pytest.mark.parametrize("after", [[1.61, 1.61], [1.61]])
def test_a_trial_that_diverges_after_the_target_has_not_reached_it(make_study, follow, after):
    study = one_trial(make_study, follow, [2.1, *after, 9.0], half=Reason.DIVERGED)
    found = timed(study, "half")

    assert found.n_reached == 0
    assert found.by_seed[0].touched_at == 250_000
    assert found.median_target_tokens is None
    assert found.sentence == (
        "half reached it in 0 of 1 seed; median: not reached. In seed 0 it touched the target at "
        "250000 target tokens and then diverged: not reached."
    )


def test_a_trial_that_says_nothing_of_its_arm_is_left_out_and_counted(make_study, follow):
    study = make_study({"half": [1.6, Reason.KILLED, None], "baseline": BASELINE}, target_loss=1.62)
    found = timed(follow(study, {"half": [CURVES[0]] * 3, "baseline": CURVES}), "half")

    assert (found.n, found.n_reached, found.n_missing) == (1, 1, 2)
    assert found.sentence == (
        "half reached it in 1 of 1 seed; median: after 500000 and by 750000 target tokens; "
        "partial: 2 more trials are missing."
    )


def test_the_default_target_is_the_baseline_s_worst_final_loss(make_study, follow):
    study = follow(make_study({"baseline": BASELINE}), {"baseline": CURVES})
    found = find_target(study)

    assert found.loss == 1.605
    assert found.sentence == (
        "The target is 1.605 nats per target token, the highest final validation loss of a trial "
        "of baseline."
    )
    assert timed(study).n_reached == 3  # by construction


def test_a_target_of_the_study_file_is_taken_as_it_is(make_study, follow):
    study = follow(make_study({"baseline": BASELINE}, target_loss=1.5), {"baseline": CURVES})

    assert find_target(study).sentence == "The target is 1.5 nats per target token, as agreed."
    assert timed(study).n_reached == 0


def test_the_final_loss_counts_even_where_trials_count_by_their_lowest(make_study, follow):
    """A trial touches its own lowest loss once, and nothing confirms it."""
    study = make_study({"baseline": [1.59, 1.605, 1.595]}, is_at_best=True)
    curves = [[2.1, 1.7, 1.65, 1.59, 1.61], *CURVES[1:]]

    assert find_target(follow(study, {"baseline": curves})).loss == 1.61


def test_a_baseline_that_was_stopped_sets_no_target(make_study, follow):
    study = follow(make_study({"baseline": [Reason.DIVERGED, *BASELINE[1:]]}), {"baseline": CURVES})

    assert find_target(study).sentence == (
        "There is no target: baseline was stopped in 1 of 3 seeds, and has no worst loss."
    )
    assert timed(study) is None


@pytest.mark.parametrize("start", [4.454, 4.579], ids=["above", "equal"])
def test_a_baseline_that_ends_no_lower_than_it_began_sets_no_target(
    make_study, follow, retain, alter, start
):
    """Every trial would be at 4.579 before its first update, the one that diverges included."""
    entries = {"baseline": [4.471, 4.579, 4.46], "double": [Reason.DIVERGED] * 3}
    study = retain(make_study(entries), {arm: [3.0] * 3 for arm in entries})
    for arm, seed in [(arm, seed) for arm in entries for seed in range(3)]:
        study = alter(study, arm, seed, initial_loss=start)
    ways = {
        "baseline": [[start, 4.2, end] for end in entries["baseline"]],
        "double": [[start, 9.0]] * 3,
    }
    found = compare(follow(study, ways))

    assert found.target.loss is None
    assert found.target.sentence == (
        "There is no target: the highest final validation loss of a trial of baseline, 4.579 nats "
        f"per target token, is not below the initial loss, {start:g}, and is reached without "
        "training."
    )
    assert found.baseline_time_to_target is None
    assert found.arms[0].time_to_target is None


def test_an_agreed_loss_that_is_not_below_the_lowest_initial_one_is_no_target(
    make_study, follow, alter
):
    """The initial losses are 2.1, 2.1 and 2.0996."""
    study = follow(make_study({"baseline": BASELINE}, target_loss=2.0998), {"baseline": CURVES})

    assert find_target(study).loss == 2.0998
    assert find_target(alter(study, "baseline", 2, initial_loss=2.0996)).loss is None
    assert find_target(dataclasses.replace(study, target_loss=2.15)).sentence == (
        "There is no target: the loss that was agreed, 2.15 nats per target token, is not below "
        "the initial loss, 2.1, and is reached without training."
    )


def test_where_no_initial_loss_is_on_record_the_target_stays(make_study, follow, alter):
    study = follow(make_study({"baseline": [1.6]}), {"baseline": CURVES[:1]})

    assert find_target(alter(study, "baseline", 0, initial_loss=None)).loss == 1.6


def test_a_baseline_with_missing_trials_sets_a_target_from_those_it_has(make_study, follow):
    study = follow(make_study({"baseline": [*BASELINE[:2], Reason.KILLED]}), {"baseline": CURVES})

    assert find_target(study).sentence == (
        "The target is 1.605 nats per target token, the highest final validation loss of a trial "
        "of baseline, of the 2 of 3 that completed."
    )


def test_without_a_completed_baseline_there_is_no_target(make_study):
    study = make_study({"half": [None], "baseline": [None]}, closed=False)

    assert find_target(study).loss is None
    assert find_target(study).sentence == (
        "There is no target: no trial of baseline has completed, its evaluations on record."
    )
    assert compare(study).arms[0].time_to_target is None


def test_an_arm_that_is_not_comparable_has_no_time(t07, alter):
    study = alter(t07, "half", 0, initial_digest="other")

    assert compare(t07).arms[0].time_to_target is not None
    assert compare(study).arms[0].time_to_target is None
    assert compare(study).baseline_time_to_target.n_reached == 3


def test_seconds_are_of_training_and_given_where_they_may_be(t07):
    found = timed(t07, with_seconds=True)

    assert (found.median_after_seconds, found.median_seconds) == (500.0, 750.0)
    assert found.sentence.endswith("750000 target tokens (500 to 750 s of training).")


def test_seconds_that_are_not_on_record_are_not_guessed(t07, alter):
    cell = t07.cell("baseline", 0)
    points = tuple(dataclasses.replace(p, training_seconds=None) for p in cell.evaluations)
    found = timed(alter(t07, "baseline", 0, evaluations=points), with_seconds=True)

    assert found.median_seconds is None
    assert found.sentence.endswith("by 750000 target tokens.")


def test_retention_at_the_target_is_where_the_arm_first_reached_it(make_study, follow):
    """Reached at 750000, 1000000 and 750000 target tokens: losses 3.03, 3.14 and 3.23."""
    study = make_study({"baseline": BASELINE}, target_loss=1.62)
    retention = [[seed / 10 + 3 + place / 100 for place in range(5)] for seed in range(3)]
    study = follow(study, {"baseline": CURVES}, retention={"baseline": retention})

    assert timed(study).retention_at_target == pytest.approx((3.03 + 3.14 + 3.23) / 3)
    assert timed(study).by_seed[1].retention_loss == 3.14


def test_only_a_schedule_that_decays_has_the_caveat(make_study):
    study = make_study({"baseline": BASELINE})

    assert caveat(study) is None
    assert caveat(dataclasses.replace(study, rate_decays=True)) == (
        "Under a schedule that decays over the full budget; not the time that a trial planned to "
        "end there would need."
    )


losses = st.one_of(st.integers(1536, 2048).map(lambda k: k / 1024), st.none())
curves = st.lists(losses, min_size=5, max_size=5)


@UNHURRIED
@given(curves, st.integers(1536, 2048).map(lambda k: k / 1024))
def test_a_crossing_is_where_a_search_by_hand_finds_it(make_study, follow, curve, target):
    study = one_trial(make_study, follow, curve, half=1.7, target_loss=target)
    known = [math.inf if loss is None else loss for loss in curve]
    held = [
        250_000 * place
        for place in range(5)
        if known[place] <= target and (place == 4 or known[place + 1] <= target)
    ]

    assert timed(study, "half").by_seed[0].target_tokens == (held[0] if held else None)


@UNHURRIED
@given(curves, st.integers(1536, 1792), st.integers(0, 256))
def test_an_easier_target_is_never_reached_later(make_study, follow, curve, target, easier):
    at = [
        timed(one_trial(make_study, follow, curve, half=1.7, target_loss=t / 1024), "half")
        for t in (target, target + easier)
    ]
    hard, easy = (
        math.inf if t.median_target_tokens is None else t.median_target_tokens for t in at
    )

    assert easy <= hard


@UNHURRIED
@given(st.lists(curves, min_size=1, max_size=5), st.integers(0, 4))
def test_a_stopped_trial_never_improves_an_arm_s_times(make_study, follow, of_half, place):
    seed, n = place % len(of_half), len(of_half)
    whole = make_study({"half": [1.7] * n, "baseline": [1.6] * n}, target_loss=1.75)
    entries = [Reason.DIVERGED if index == seed else 1.7 for index in range(n)]
    broken = make_study({"half": entries, "baseline": [1.6] * n}, target_loss=1.75)
    before, after = (
        timed(follow(study, {"half": of_half, "baseline": [[2.1, 1.6]] * n}), "half")
        for study in (whole, broken)
    )

    assert after.n_reached <= before.n_reached
    assert after.restricted_mean_target_tokens >= before.restricted_mean_target_tokens
    assert after.median_target_tokens is None or (
        before.median_target_tokens is not None
        and after.median_target_tokens >= before.median_target_tokens
    )
