"""The difference record by record: its error, its check, and what it takes away from a claim."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.examples import bootstrap_error, ratio_estimate, two_sources

DIGITS = 1e-9
"""The cases give nine decimals."""

UNHURRIED = settings(deadline=None)
"""A loaded machine is no failure."""

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]


@pytest.fixture
def t11(cases):
    given_ = cases["T11"]["given"]
    differences = [a - b for a, b in zip(given_["nll_a"], given_["nll_b"], strict=True)]
    return differences, given_["target_tokens"], [str(name) for name in given_["cluster"]]


def test_the_ratio_and_its_errors_of_case_t11(t11, cases):
    expected, found = cases["T11"]["expect"], ratio_estimate(*t11)

    assert found.difference == pytest.approx(expected["diff"], abs=DIGITS)
    assert found.error_of_records == pytest.approx(expected["se_iid"], abs=DIGITS)
    assert found.error == pytest.approx(expected["se_cluster"], abs=DIGITS)
    assert found.groups == 3


def test_case_t11_by_hand(t11, cases):
    """Sums -10 of 200 tokens; residuals of the three groups .5, -1.5 and 1 nats."""
    differences, tokens, _ = t11
    by_group = math.sqrt((0.5**2 + 1.5**2 + 1.0**2) / (3 * 2)) * 3 / 200
    wrong = np.mean(np.array(differences) / np.array(tokens))

    assert ratio_estimate(*t11).error == pytest.approx(by_group, rel=1e-12)
    assert wrong == pytest.approx(cases["T11"]["expect"]["wrong_mean_of_example_means"])


def test_the_two_sources_of_case_t11(cases):
    given_, expected = cases["T11"]["given"]["two_source"], cases["T11"]["expect"]["two_source"]
    found = two_sources(
        given_["mean"],
        seed_error=given_["se_seed"],
        seeds=given_["n"],
        record_error=given_["se_examples"],
        groups=given_["clusters"],
    )

    assert found.error == pytest.approx(expected["se"], abs=DIGITS)
    assert found.degrees_of_freedom == pytest.approx(expected["df"], abs=5e-5)
    assert [found.interval_95.low, found.interval_95.high] == pytest.approx(
        expected["ci95"], abs=DIGITS
    )


def test_a_fraction_of_a_degree_of_freedom_is_no_rounded_one():
    """The quantile by integrating Student's density, at 4.8 degrees of freedom."""
    found = two_sources(0.0, seed_error=1.0, seeds=5, record_error=0.3, groups=40)
    degrees, quantile = found.degrees_of_freedom, found.interval_95.high / found.error
    scale = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2) / math.sqrt(degrees * math.pi)
    inside, _ = integrate.quad(
        lambda t: scale * (1 + t * t / degrees) ** (-(degrees + 1) / 2), -quantile, quantile
    )

    assert degrees == pytest.approx(4.74846, abs=1e-5)  # 1.09^2 / (1/4 + .0081/39)
    assert inside == pytest.approx(0.95, abs=1e-9)


def test_where_nothing_varies_there_is_no_interval():
    assert two_sources(0.0, seed_error=0.0, seeds=5, record_error=0.0, groups=40) is None


def test_a_single_group_has_no_error():
    found = ratio_estimate([1.0, 2.0], [10, 10], ["a", "a"])

    assert (found.difference, found.groups, found.error) == (0.15, 1, None)
    assert found.error_of_records == pytest.approx(0.05)


@pytest.mark.parametrize(("groups", "is_checked"), [(49, False), (50, True)])
def test_the_bootstrap_needs_50_groups(groups, is_checked):
    names = [str(index % groups) for index in range(100)]
    differences = [math.sin(index) for index in range(100)]

    assert (bootstrap_error(differences, [10] * 100, names) is not None) is is_checked


def test_the_bootstrap_agrees_with_the_formula_where_groups_are_many_and_alike():
    """Of 400 groups of two records; 1000 resamples give a standard error to 2.2 % (one sd)."""
    generator = np.random.default_rng(7)
    tokens = generator.integers(20, 60, 800).tolist()
    differences = (generator.normal(-0.01, 0.1, 800) * tokens).tolist()
    names = [str(index // 2) for index in range(800)]

    assert bootstrap_error(differences, tokens, names) == pytest.approx(
        ratio_estimate(differences, tokens, names).error, rel=0.07
    )


def test_the_bootstrap_is_the_same_every_time_and_in_every_order():
    names = [str(index % 60) for index in range(120)]
    records = [(math.sin(index), 5 + index % 7, name) for index, name in enumerate(names)]
    turned = zip(*reversed(records), strict=True)

    assert bootstrap_error(*zip(*records, strict=True)) == bootstrap_error(*turned)


records_of = st.lists(
    st.tuples(
        st.integers(-512, 512).map(lambda k: k / 256), st.integers(1, 50), st.sampled_from("abcdef")
    ),
    min_size=2,
    max_size=12,
)


@UNHURRIED
@given(records_of)
def test_records_that_are_groups_of_their_own_have_the_plain_error(records):
    differences, tokens, _ = zip(*records, strict=True)
    found = ratio_estimate(differences, tokens, [str(place) for place in range(len(records))])

    assert found.error == found.error_of_records


@UNHURRIED
@given(records_of, st.randoms())
def test_the_order_of_records_changes_no_digit(records, random):
    shuffled = list(records)
    random.shuffle(shuffled)

    assert ratio_estimate(*zip(*shuffled, strict=True)) == ratio_estimate(
        *zip(*records, strict=True)
    )


@UNHURRIED
@given(records_of)
def test_the_error_is_that_of_a_regression_through_the_origin(records):
    """The residual variance of the groups' sums about ratio x tokens, over the tokens' mean."""
    differences, tokens, names = zip(*records, strict=True)
    assume(len(set(names)) > 1)
    by_group = {name: np.zeros(2) for name in names}
    for difference, count, name in records:
        by_group[name] += (difference, count)
    d, m = np.array(list(by_group.values())).T
    n = len(d)
    residuals = d - d.sum() / m.sum() * m
    reference = np.std(residuals, ddof=1) / math.sqrt(n) / m.mean()

    assert ratio_estimate(differences, tokens, names).error == pytest.approx(reference, abs=1e-12)


@UNHURRIED
@given(st.floats(1e-4, 1), st.floats(1e-4, 1), st.integers(2, 9), st.integers(2, 200))
def test_degrees_of_freedom_lie_between_the_smaller_and_the_sum(seed, record, seeds, groups):
    found = two_sources(0.0, seed_error=seed, seeds=seeds, record_error=record, groups=groups)
    least, most = min(seeds, groups) - 1, seeds + groups - 2

    assert least * (1 - 1e-9) <= found.degrees_of_freedom <= most * (1 + 1e-9)
    assert found.error >= max(seed, record)


SPREADS = {"wide": 0.2, "narrow": 0.01}
"""By how much a record's own difference lies above or below the mean, nats per target token."""


@pytest.fixture
def with_records(make_study, score):
    """Half against baseline with 40 records of ten tokens, whose own differences spread."""

    def build(spread, *, half=HALF, baseline=BASELINE, groups=40, seeds=None, **rules):
        study = make_study({"half": half, "baseline": baseline}, **rules)
        shifts = [spread * (1 if place % 2 else -1) for place in range(40)]
        sums = {
            (cell.arm, cell.seed): [
                10 * (cell.endpoint + (shift if cell.arm == "half" else 0.0)) for shift in shifts
            ]
            for cell in study.cells
            if cell.endpoint is not None and (seeds is None or cell.seed in seeds)
        }
        names = [f"{place % groups:02}" for place in range(40)]
        return score(study, [10] * 40, names, sums)

    return build


def test_the_difference_over_records_is_the_paired_mean(with_records):
    """Each record's own difference lies 0.01 to one side: error .01 x sqrt(40/39) / sqrt(40)."""
    found = compare(with_records(SPREADS["narrow"])).arms[0].examples

    assert (found.seeds, found.records, found.estimate.groups) == (5, 40, 40)
    assert found.estimate.difference == pytest.approx(-0.0106, abs=DIGITS)
    assert found.estimate.error == pytest.approx(0.01 / math.sqrt(39), rel=1e-9)
    assert not found.only_on_this_split


def test_its_sentence_names_records_error_and_the_wider_interval(with_records):
    """Errors .00129 of 5 seeds and .0016 of 40 records: together .00206 with 18.2 degrees."""
    found = compare(with_records(SPREADS["narrow"])).arms[0].examples

    assert found.two_sources.error == pytest.approx(math.hypot(0.00128841, 0.01 / math.sqrt(39)))
    assert found.sentence == (
        "half - baseline over 40 records of this validation split, averaged over 5 seeds: -0.0106 "
        "nats per target token (standard error over records 0.0016). Allowing for other seeds and "
        "other records, the 95 % interval is -0.0149 to -0.0063."
    )


def test_a_claim_that_other_records_may_not_bear_out_is_limited_to_this_split(with_records):
    """Records spread by 0.2: error 0.032, so that the wider interval includes 0 by far."""
    found = compare(with_records(SPREADS["wide"]))
    half = found.arms[0]

    assert half.examples.only_on_this_split
    assert half.verdict.kind == "better"
    assert half.verdict.sentence == (
        "half is better than baseline on this validation split: lower by 0.0106 nats per target "
        "token (95 % interval 0.0070 to 0.0142, paired over 5 seeds, Holm p = 0.0012; lower in 5 "
        "of 5 seeds). Allowing for other seeds and other records, the 95 % interval of half - "
        "baseline is -0.08 to 0.05, which includes 0."
    )
    assert found.answer.sentence == (
        "Yes: half (0.0001) is better than baseline on this validation split by 0.0106 nats per "
        "target token (95 % interval 0.0070 to 0.0142)."
    )
    assert found.choice.sentence.startswith(
        "half is chosen: better than baseline on this validation split by 0.0106 nats"
    )
    assert half.examples.sentence.endswith("is -0.08 to 0.05: it includes 0.")


def test_a_difference_that_does_not_matter_is_limited_likewise(with_records):
    found = compare(with_records(SPREADS["wide"], smallest_difference=0.5)).arms[0].verdict

    assert found.kind == "reliable_but_below_delta"
    assert found.sentence.startswith("half is reliably lower than baseline on this validation spl")


def test_groups_are_drawn_together(with_records):
    """Each of 20 groups holds two records that differ in the same direction."""
    alone = compare(with_records(SPREADS["narrow"])).arms[0].examples
    grouped = compare(with_records(SPREADS["narrow"], groups=20)).arms[0].examples

    assert grouped.estimate.groups == 20
    assert grouped.estimate.error == pytest.approx(0.01 / math.sqrt(19), rel=1e-9)
    assert grouped.estimate.error > alone.estimate.error
    assert "over 40 records in 20 groups of this validation split" in grouped.sentence


def test_a_wider_interval_changes_no_verdict(with_records, make_study):
    plain = compare(make_study({"half": HALF, "baseline": BASELINE}))
    limited = compare(with_records(SPREADS["wide"]))

    assert limited.arms[0].verdict.label == plain.arms[0].verdict.label
    assert limited.arms[0].difference == plain.arms[0].difference
    assert limited.choice.arm == plain.choice.arm


def test_one_seed_has_no_interval_for_new_seeds(with_records):
    found = compare(with_records(SPREADS["narrow"], half=HALF[:1], baseline=BASELINE[:1])).arms[0]

    assert found.examples.two_sources is None
    assert found.examples.sentence == (
        "half - baseline over 40 records of this validation split, averaged over 1 seed: -0.0120 "
        "nats per target token (standard error over records 0.0016)."
    )


def test_seeds_that_do_not_vary_have_none_either(with_records):
    baseline = [1.5, 1.625, 1.75]
    half = [loss - 0.0625 for loss in baseline]
    found = compare(with_records(SPREADS["narrow"], half=half, baseline=baseline)).arms[0]

    assert found.verdict.kind == "no_claim:zero_spread"
    assert found.examples.two_sources is None


def test_a_pair_whose_records_are_not_on_record_leaves_the_arm_without(with_records):
    assert compare(with_records(SPREADS["narrow"], seeds=[0, 1, 2, 3])).arms[0].examples is None


def unread(study, *places):
    """The study with the files of those trials changed."""
    sums = {p: s for p, s in study.examples.loss_sums.items() if p not in places}
    found = dataclasses.replace(study.examples, loss_sums=sums, unread=places)
    return dataclasses.replace(study, examples=found)


def test_damage_that_takes_the_records_from_an_arm_is_told_by_trial(with_records):
    """Undamaged, the claim is limited to this validation split; damaged, it is not, but told."""
    study = with_records(SPREADS["wide"])
    damaged = unread(study, ("half", 3), ("baseline", 1))

    (before, *_), (after, *_) = compare(study).arms, compare(damaged).arms

    assert "on this validation split" in before.verdict.sentence
    assert before.examples_left_out is None
    assert after.examples is None
    assert after.examples_left_out == (
        "half is not compared with baseline record by record: the files with the losses of single "
        "records of half/3 and baseline/1 are gone or changed. Whether other validation records "
        "would agree is not known, and nothing said of it allows for that."
    )


def test_records_that_are_not_needed_for_a_comparison_are_not_missed(with_records):
    study = unread(with_records(SPREADS["narrow"]), ("half", 7))

    (half, *_) = compare(study).arms

    assert half.examples is not None
    assert half.examples_left_out is None


def test_only_the_pairs_compared_take_part(with_records):
    half = [*HALF[:4], Reason.KILLED]
    found = compare(with_records(SPREADS["narrow"], half=half)).arms[0]

    assert found.examples.seeds == found.difference.n == 4


def test_an_arm_that_is_not_comparable_has_no_difference_over_records(with_records, alter):
    study = alter(with_records(SPREADS["narrow"]), "half", 0, initial_digest="other")

    assert compare(study).arms[0].examples is None


def test_a_bootstrap_that_disagrees_is_said(make_study, score):
    """One group of 60 holds nearly all tokens: with or without it, the ratio is another."""
    study = make_study({"half": HALF[:2], "baseline": BASELINE[:2]})
    tokens = [1] * 59 + [10_000]
    lower = [0.5 * count * (-1) ** place for place, count in enumerate(tokens)]
    sums = {("half", seed): lower for seed in (0, 1)} | {
        ("baseline", seed): [0.0] * 60 for seed in (0, 1)
    }
    found = compare(score(study, tokens, [f"{p:02}" for p in range(60)], sums)).arms[0].examples

    assert abs(found.bootstrap_error / found.estimate.error - 1) > 0.2
    assert "few groups decide, and neither is to be relied upon." in found.sentence


def test_the_combined_interval_covers_new_seeds_and_new_records_as_often_as_it_says():
    """1000 studies of 5 seeds and 200 records; the formula leans to the safe side.

    Records' own differences spread by .05, seeds by .004, and each record in each seed by .05 more:
    seeds alone then miss the truth in far more than 5 % of studies. The rate's standard error at
    95 % is 0.7 %.
    """
    generator = np.random.default_rng(20)
    of_record = generator.normal(0, 0.05, (1000, 1, 200))
    of_seed = generator.normal(0, 0.004, (1000, 5, 1))
    every = of_record + of_seed + generator.normal(0, 0.05, (1000, 5, 200))
    by_seed = every.mean(axis=2)
    seed_error = by_seed.std(axis=1, ddof=1) / math.sqrt(5)
    record_error = every.mean(axis=1).std(axis=1, ddof=1) / math.sqrt(200)
    centre = by_seed.mean(axis=1)
    found = [
        two_sources(c, seed_error=s, seeds=5, record_error=r, groups=200).interval_95.holds(0.0)
        for c, s, r in zip(centre, seed_error, record_error, strict=True)
    ]
    seeds_alone = np.abs(centre) <= stats.t.ppf(0.975, 4) * seed_error

    assert np.mean(found) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 1000)
    assert np.mean(seeds_alone) < 0.95 - 3 * math.sqrt(0.95 * 0.05 / 1000)


def test_lengths_that_do_not_fit_are_a_fault_of_ours(make_study, score):
    study = make_study({"half": HALF, "baseline": BASELINE})

    with pytest.raises(AssertionError):
        score(study, [10, 10], ["a", "b"], {("half", 0): [1.0]})
    assert dataclasses.replace(study).examples is None
