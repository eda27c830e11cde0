"""The golden sentence of every verdict, in the order in which they are asked for."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]
CLEARLY_HIGHER = [1.702, 1.699, 1.710, 1.706, 1.693]


def shifted(differences, baseline=BASELINE):
    pairs = zip(baseline[: len(differences)], differences, strict=True)
    return [loss + d for loss, d in pairs]


def said_of(study, arm="half"):
    return next(found.verdict for found in compare(study).arms if found.arm == arm).sentence


def said(make_study, half, baseline=BASELINE, **rules):
    """Of half, in a study whose other arm takes no part but counts in the family."""
    other = [Reason.DIVERGED] * len(half)
    return said_of(
        make_study({"half": half, "baseline": baseline[: len(half)], "double": other}, **rules)
    )


def test_not_comparable(make_study, alter):
    study = make_study({"half": HALF, "baseline": BASELINE})
    study = alter(study, "half", 2, target_tokens_applied=993_800, skipped=2)

    assert said_of(study) == (
        "half is not comparable with baseline: in seed 2 it trained on 0.62 % fewer target tokens "
        "(993800 against 1000000, 2 of its 3 windows skipped; tolerance 0.5 %). No difference is "
        "reported."
    )


@pytest.mark.parametrize(
    ("seeds", "more"),
    [
        ([0, 1], " One more such finding is listed."),
        ([0, 1, 2], " 2 more such findings are listed."),
    ],
)
def test_not_comparable_in_several_seeds(make_study, alter, seeds, more):
    study = make_study({"half": HALF, "baseline": BASELINE})
    cells = tuple(
        dataclasses.replace(
            cell, initial_digest="x" if cell.arm == "half" and cell.seed in seeds else "y"
        )
        for cell in study.cells
    )

    assert said_of(dataclasses.replace(study, cells=cells)) == (
        "half is not comparable with baseline: in seed 0 it started from other trainable tensors. "
        f"No difference is reported.{more}"
    )


def test_baseline_unstable(make_study):
    baseline = [Reason.DIVERGED, *BASELINE[1:]]

    assert said_of(make_study({"half": HALF, "baseline": baseline})) == (
        "The baseline itself diverged in 1 of 5 seeds (at 41000 target tokens; last finite loss "
        "5.25). So no improvement over it can be stated."
    )


def test_baseline_unstable_does_not_hide_the_arms_own_failures(make_study):
    baseline = [Reason.DIVERGED, *BASELINE[1:]]
    half = [Reason.NONFINITE_LOSS, *HALF[1:]]

    assert said_of(make_study({"half": half, "baseline": baseline})) == (
        "The baseline itself diverged in 1 of 5 seeds (at 41000 target tokens; last finite loss "
        "5.25). So no improvement over it can be stated. half reached a loss that is not finite in "
        "1 of 5 seeds (at 41000 target tokens; last finite loss 5.25)."
    )


def test_unstable(make_study, alter):
    study = make_study({"double": [Reason.DIVERGED] * 3, "baseline": BASELINE[:3]})
    study = alter(study, "double", 1, stopped_at_target_tokens=44_000, last_finite_loss=None)
    study = alter(study, "double", 2, stopped_at_target_tokens=38_000, last_finite_loss=4.5)

    assert said_of(study, "double") == (
        "double diverged in 3 of 3 seeds (at 41000, 44000 and 38000 target tokens; last finite "
        "losses 5.25, none and 4.5). It is not eligible. With 3 seeds its failure rate is only "
        "known to lie between 29 % and 100 %."
    )


def test_unstable_for_several_reasons(make_study, alter):
    losses = [Reason.NONFINITE_GRADIENT, Reason.DIVERGED, Reason.DIVERGED]
    study = make_study({"double": losses, "baseline": BASELINE[:3]})
    study = alter(study, "double", 0, stopped_at_target_tokens=None)

    assert said_of(study, "double") == (
        "double was stopped in 3 of 3 seeds: it diverged in 2 (at 41000 and 41000 target tokens; "
        "last finite losses 5.25 and 5.25) and it reached gradients that are not finite in 1 (at "
        "an unrecorded number of target tokens; last finite loss 5.25). It is not eligible. With 3 "
        "seeds its failure rate is only known to lie between 29 % and 100 %."
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.NONFINITE_LOSS, "reached a loss that is not finite"),
        (Reason.NONFINITE_GRADIENT, "reached gradients that are not finite"),
        (Reason.NONFINITE_PARAMETER, "reached weights that are not finite"),
        (Reason.DIVERGED, "diverged"),
        (Reason.NO_UPDATES, "came to make no updates any more"),
        (Reason.STALLED_UPDATES, "made updates that moved no weight"),
    ],
)
def test_a_stopped_arm_is_worded_by_its_reason(make_study, reason, words):
    assert said_of(make_study({"half": [*HALF[:4], reason], "baseline": BASELINE})) == (
        f"half {words} in 1 of 5 seeds (at 41000 target tokens; last finite loss 5.25). It is not "
        "eligible. With 5 seeds its failure rate is only known to lie between 1 % and 72 %."
    )


def test_a_stopped_arm_with_a_missing_trial_says_both(make_study):
    losses = [Reason.DIVERGED, 1.59, Reason.KILLED]
    sentence = said_of(make_study({"half": losses, "baseline": BASELINE[:3]}))

    assert sentence == (
        "half diverged in 1 of 3 seeds (at 41000 target tokens; last finite loss 5.25). It is not "
        "eligible. With 2 seeds its failure rate is only known to lie between 1 % and 99 %. half "
        "is incomplete, 1 of 3 pairs is missing: in seed 2 half was killed from outside: the "
        "machine's doing, no finding about the arm."
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.KILLED, "was killed from outside: the machine's doing"),
        (Reason.WORKER_LOST, "lost its worker: the machine's doing"),
        (Reason.DEVICE_ERROR, "was lost to a device error: the machine's doing"),
        (Reason.WALL_CLOCK, "ran into the limit on wall-clock time: the limit's doing"),
        (Reason.HOST_MEMORY, "ran into the limit on host memory: the limit's doing"),
        (Reason.CODE_ERROR, "ended in a code error: a fault of the run"),
        (Reason.USER_CANCELLED, "was cancelled: the user's doing"),
    ],
)
def test_incomplete_is_worded_by_its_reason(make_study, reason, words):
    """The four pairs present differ by -0.012, -0.009, -0.015 and -0.008: mean -0.011."""
    assert said_of(make_study({"half": [*HALF[:4], reason], "baseline": BASELINE})) == (
        f"half is incomplete, 1 of 5 pairs is missing: in seed 4 half {words}, no finding about "
        "the arm. Partial, over 4 seeds of 5: half ended 0.0110 nats per target token lower than "
        "baseline; no claim is made from a part. The study is closed: the arm counts with p = 1."
    )


def test_incomplete_gives_the_detail_behind_the_reason(make_study, alter):
    study = make_study({"half": [*HALF[:4], Reason.KILLED], "baseline": BASELINE})

    assert (
        "in seed 4 half was killed from outside (signal 9, no limit of ours fired): the machine's "
        "doing, no finding about the arm."
    ) in said_of(alter(study, "half", 4, detail="signal 9, no limit of ours fired."))


def test_incomplete_while_the_study_is_open(make_study):
    study = make_study(
        {"half": [HALF[0], None, None], "baseline": [BASELINE[0], Reason.PREEMPTED, None]},
        closed=False,
    )

    assert said_of(study) == (
        "half is incomplete, 2 of 3 pairs are missing: in seed 1 baseline was preempted: the "
        "machine's doing, no finding about the arm and half has not been run to an end; in seed 2 "
        "baseline has not been run to an end and half has not been run to an end. Partial, over 1 "
        "seed of 3: half ended 0.012 nats per target token lower than baseline; no claim is made "
        "from a part."
    )


def test_incomplete_without_a_pair(make_study):
    study = make_study({"half": [None], "baseline": [BASELINE[0]]}, closed=False)

    assert said_of(study) == (
        "half is incomplete, 1 of 1 pairs is missing: in seed 0 half has not been run to an end. "
        "No pair is complete."
    )


def test_one_seed_is_too_few(make_study):
    assert said(make_study, HALF[:1]) == (
        "half ended 0.012 nats per target token lower than baseline in the one seed run. One seed "
        "cannot show whether this is more than chance."
    )


def test_two_seeds_are_too_few(make_study):
    """Differences -0.012 and 0.009: mean -0.0015, standard error 0.0105."""
    assert said(make_study, shifted([-0.012, 0.009])) == (
        "half ended 0.002 nats per target token lower than baseline on average over 2 seeds (lower "
        "in 1 of 2 seeds). Two seeds cannot show whether this is more than chance."
    )


def test_equal_differences_are_no_claim(make_study):
    assert said(make_study, [1.585, 1.685, 1.785], [1.6, 1.7, 1.8]) == (
        "No claim about half: all seeds gave the same difference from baseline. Check that the "
        "seed reaches data order, initialisation and dropout."
    )


def test_a_baseline_that_does_not_vary_is_no_claim(make_study):
    assert said(make_study, [1.585, 1.59, 1.595], [1.6, 1.6, 1.6]) == (
        "No claim about half: all seeds gave baseline the same loss. Check that the seed reaches "
        "data order, initialisation and dropout."
    )


def test_better(make_study):
    assert said(make_study, HALF) == (
        "half is better than baseline: lower by 0.0106 nats per target token (95 % interval 0.0070 "
        "to 0.0142, paired over 5 seeds, Holm p = 0.0024; lower in 5 of 5 seeds)."
    )


def test_worse(make_study):
    """Differences .100, .101, .099, .101, .099: mean .1, sd .001, t = 223.6."""
    assert said(make_study, CLEARLY_HIGHER) == (
        "half is worse than baseline: higher by 0.1000 nats per target token (95 % interval 0.0988 "
        "to 0.1012, paired over 5 seeds, Holm p < 0.0001; lower in 0 of 5 seeds)."
    )


def test_better_with_three_seeds_is_provisional(make_study):
    assert said(make_study, HALF[:3]) == (
        "half is better than baseline: lower by 0.0120 nats per target token (95 % interval 0.0045 "
        "to 0.0195, paired over 3 seeds, Holm p = 0.04; lower in 3 of 3 seeds). 3 seeds allow only "
        "a provisional statement: no sign test reaches 5 % with fewer than 6."
    )


def test_from_six_seeds_on_the_sign_flip_test_is_given(make_study):
    """All of six differences are negative: 2 of 64 sign patterns are as far out."""
    baseline = [*BASELINE, 1.6]

    assert said(make_study, [*HALF, 1.588], baseline) == (
        "half is better than baseline: lower by 0.0108 nats per target token (95 % interval 0.0081 "
        "to 0.0136, paired over 6 seeds, Holm p = 0.00033, sign-flip p = 0.031; lower in 6 of 6 "
        "seeds)."
    )


def test_worse_against_a_simultaneous_interval_that_includes_0(make_study, cases):
    study = make_study(
        {
            "half": HALF,
            "baseline": BASELINE,
            "double": shifted(cases["T06"]["given"]["d_double"]),
        }
    )

    assert said_of(study, "double") == (
        "double is worse than baseline: higher by 0.010 nats per target token (95 % interval "
        "0.0004 to 0.0204, paired over 5 seeds, Holm p = 0.044; lower in 0 of 5 seeds). The "
        "simultaneous 97.5 % interval of double - baseline (-0.002 to 0.023) includes 0 although "
        "Holm's test passes: take it as barely shown."
    )


def test_reliable_but_below_delta(make_study, cases):
    assert said(make_study, shifted(cases["T13"]["given"]["tiny_d"])) == (
        "half is reliably lower than baseline, by 0.00220 nats per target token (95 % interval "
        "0.00149 to 0.00291, paired over 5 seeds, Holm p = 0.002; lower in 5 of 5 seeds), which is "
        "less than the 0.005 declared to matter: baseline is kept."
    )


def test_equivalent_within_delta(make_study, cases):
    assert said(make_study, shifted(cases["T13"]["given"]["equivalence_d"])) == (
        "half differs from baseline by less than 0.005 nats per target token (90 % interval of "
        "half - baseline -0.0014 to 0.0014, paired over 5 seeds)."
    )


def test_equivalent_with_three_seeds_is_provisional(make_study):
    """Differences .001, -.001, 0: sd .001, half width 2.92 x .001 / sqrt(3) = .0017."""
    assert said(make_study, shifted([0.001, -0.001, 0.0])) == (
        "half differs from baseline by less than 0.005 nats per target token (90 % interval of "
        "half - baseline -0.0017 to 0.0017, paired over 3 seeds). 3 seeds allow only a provisional "
        "statement: no sign test reaches 5 % with fewer than 6."
    )


def test_no_reliable_difference(make_study, cases):
    """The resolution is 4.625 standard deviations of 0.007."""
    assert said(make_study, shifted(cases["T03"]["given"]["d_mixed"])) == (
        "No reliable difference between half and baseline (half - baseline = -0.003 nats per "
        "target token, 95 % interval -0.020 to 0.014, paired over 3 seeds). This does not show "
        "that they are equal: with this spread the study could only have seen about 0.03 nats."
    )
