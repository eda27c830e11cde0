"""The sentences on an opened test split, word by word."""

import dataclasses

import pytest

from sweeper.selection.chain import EntryKind, link_after
from sweeper.selection.frozen import Role
from sweeper.selection.opened import OpenedOverlap, Openings
from sweeper.selection.opened_sentences import (
    SPENT,
    aborted_openings,
    overlap_sentences,
    times_evaluated,
    verdict_sentences,
)
from sweeper.selection.test_verdict import OpenedRule, judge_opened

RULE = OpenedRule(smallest_difference=0.005)
UNCHECKED = (
    "validation: whether its prompts are, with another answer, also in the test split cannot be "
    "checked any more."
)
T01 = [-0.012, -0.009, -0.015, -0.008, -0.009]


def said(opened, rule=RULE):
    return verdict_sentences(judge_opened(opened, rule))


def test_a_confirmed_difference(openings):
    assert said(openings.with_test_differences(T01)) == (
        (
            "Confirmed: on the test split, too, half is lower than baseline, by 0.0106 nats per "
            "target token (95 % interval 0.0070 to 0.0142, paired over 5 seeds, p = 0.0012, "
            "lower in 5 of 5)."
        ),
        (
            "Test loss - validation loss, nats per target token: half +0.0200, baseline +0.0200 "
            "and untrained model +0.0200. Nothing was selected with the untrained model, so the "
            "test split is 0.0200 harder; +0.0000 of the gap of half is left for selecting and "
            "fitting."
        ),
        (
            "half - baseline: -0.0106 on the validation split, -0.0106 on the test split, a change "
            "of +0.0000."
        ),
    )


def test_where_all_seeds_gave_the_same_difference_there_is_no_interval(openings):
    first, _, last = said(openings.with_test_differences([-0.011] * 5))

    assert first == (
        "Same sign, not reliable: on the test split half is lower than baseline by 0.011 nats per "
        "target token (paired over 5 seeds, lower in 5 of 5), and all seeds gave the same "
        "difference."
    )
    assert last.endswith("-0.0110 on the test split, a change of -0.0004.")


@pytest.mark.parametrize(
    ("differences", "rule", "sentence"),
    [
        pytest.param(
            [-0.010, 0.004, -0.003, 0.004, -0.002],
            RULE,
            "Same sign, not reliable: on the test split half is lower than baseline by 0.0014 "
            "nats per target token (95 % interval of half - baseline -0.0086 to 0.0058, paired "
            "over 5 seeds, p = 0.62, lower in 3 of 5), which is less than the 0.005 declared to "
            "matter.",
            id="chance",
        ),
        pytest.param(
            T01[:3],
            RULE,
            "Same sign, not reliable: on the test split half is lower than baseline by 0.0120 "
            "nats per target token (95 % interval 0.0045 to 0.0195, paired over 3 seeds, p = 0.02, "
            "lower in 3 of 3); 3 seeds allow only a provisional statement.",
            id="three seeds",
        ),
        pytest.param(
            T01[:1],
            RULE,
            "Same sign, not reliable: on the test split half is lower than baseline by 0.012 nats "
            "per target token (paired over 1 seed, lower in 1 of 1); 1 seed cannot show whether "
            "this is more than chance.",
            id="one seed",
        ),
        pytest.param(
            T01,
            dataclasses.replace(RULE, noise_floor=0.02),
            "Same sign, not reliable: on the test split half is lower than baseline by 0.0106 "
            "nats per target token (95 % interval 0.0070 to 0.0142, paired over 5 seeds, "
            "p = 0.0012, lower in 5 of 5), which is less than the 0.02 by which two runs of "
            "baseline with the same seed differ.",
            id="noise floor",
        ),
        pytest.param(
            [-d for d in T01],
            RULE,
            "Reversed: on the test split half is higher than baseline by 0.0106 nats per target "
            "token (95 % interval 0.0070 to 0.0142, paired over 5 seeds, p = 0.0012, lower in 0 "
            "of 5).",
            id="reversed",
        ),
        pytest.param(
            T01,
            dataclasses.replace(RULE, claims_improvement=False),
            "Nothing to confirm: no improvement was claimed for half. On the test split it is "
            "lower than baseline by 0.0106 nats per target token (95 % interval 0.0070 to 0.0142, "
            "paired over 5 seeds, p = 0.0012, lower in 5 of 5).",
            id="nothing was claimed",
        ),
    ],
)
def test_what_became_of_the_difference(openings, differences, rule, sentence):
    opened = openings.with_test_differences(differences, seeds=len(differences))

    assert said(opened, rule)[0] == sentence


def test_the_gaps_of_the_worked_case(openings):
    opened = openings.of_means(init=(2.1, 2.12), base=(1.602, 1.6228), half=(1.5914, 1.6145))

    assert said(opened)[1:] == (
        (
            "Test loss - validation loss, nats per target token: half +0.0231, baseline +0.0208 "
            "and untrained model +0.0200. Nothing was selected with the untrained model, so the "
            "test split is 0.0200 harder; +0.0031 of the gap of half is left for selecting and "
            "fitting."
        ),
        (
            "half - baseline: -0.0106 on the validation split, -0.0083 on the test split, a change "
            "of +0.0023."
        ),
    )


def test_a_baseline_that_was_kept(openings):
    opened = openings.opened(
        openings.losses(Role.BASELINE, "baseline", [1.602], [1.622]), chosen="baseline"
    )

    assert said(opened) == (
        "baseline was kept: there is no difference for the test split to confirm.",
        "Test loss - validation loss, nats per target token: baseline +0.0200.",
    )


def test_a_test_loss_that_is_not_finite(openings):
    opened = openings.opened(
        openings.losses(Role.CHOSEN, "half", [1.0, 1.0], [None, 1.5]),
        openings.losses(Role.BASELINE, "baseline", [1.0, 1.0], [1.5, None]),
    )

    sentences = said(opened)

    assert sentences[0] == "No seed has a test loss of both half and baseline: nothing is shown."
    assert "half: the test loss is not finite in 1 seed, which is left out." in sentences


def test_a_second_opening(openings):
    first = openings.with_test_differences(T01)
    second = dataclasses.replace(first, opening=2, reason="the first was read by mistake")

    assert times_evaluated(Openings(results=(first,))) is None
    assert times_evaluated(Openings(results=(first, second))) == (
        "The test split was evaluated 2 times; only the first counts, later ones are exploratory. "
        "Reasons given: the first was read by mistake."
    )


def test_an_aborted_opening():
    assert aborted_openings(Openings()) is None
    assert aborted_openings(Openings(aborted=1)) == (
        "An opening of the test split was aborted before a result was on record."
    )
    assert aborted_openings(Openings(aborted=2)) == (
        "2 openings of the test split were aborted before a result was on record."
    )


def test_an_opening_without_a_result_yet():
    begun = link_after(None, EntryKind.TEST_INTENT, {}, at="2026-01-02 03:04:05")

    assert aborted_openings(Openings(unfinished=begun, aborted=1)) == (
        "An opening of the test split was aborted before a result was on record. An opening of "
        "the test split was begun at 2026-01-02 03:04:05 and has no result yet: it is still going "
        "on, or it was aborted."
    )


def test_a_spent_test_split():
    assert SPENT == (
        "The test split is spent: it was opened for another choice before. A new sealed test "
        "split is needed for a number that confirms anything."
    )


CONFIRMED = (
    "Confirmed: on the test split, too, half is lower than baseline, by 0.0106 nats per target "
    "token (95 % interval 0.0070 to 0.0142, paired over 5 seeds, p = 0.0012, lower in 5 of 5)."
)
LESS = "Losses on it confirm less than they seem to."


@pytest.mark.parametrize(
    ("leaks", "found"),
    [
        ([("train", 7, 9)], "9 of 120 test records are in the training split"),
        (
            [("train", 1, 1), ("validation", 2, 2)],
            (
                "1 of 120 test records is in the training split and 2 of 120 test records are in "
                "the validation split"
            ),
        ),
        ([("train", 7, None)], "7 records of the training split are among its 120"),
        ([("train", 1, None)], "1 record of the training split is among its 120"),
    ],
)
def test_beside_a_confirmation_stands_what_of_the_test_split_was_not_unseen(openings, leaks, found):
    overlaps = tuple(
        OpenedOverlap(kind="exact", split=split, count=count, test_records=test_records)
        for split, count, test_records in leaks
    )

    first, *_ = said(openings.with_test_differences(T01, overlaps=overlaps))

    assert first == f"{CONFIRMED} The test split is not unseen data: {found}. {LESS}"


def test_overlaps_are_counted_and_never_quoted(openings):
    opened = openings.opened(
        overlaps=(
            OpenedOverlap(kind="exact", split="train", count=7, record_numbers=(1, 2, 3, 5, 8, 13)),
            OpenedOverlap(kind="prompt", split="train", count=1, record_numbers=(4,)),
            OpenedOverlap(kind="exact", split="validation", count=0),
            OpenedOverlap(kind="prompt", split="validation", count=None),
            OpenedOverlap(kind="prompt", split="retention", count=0),
        )
    )

    assert overlap_sentences(opened) == (
        "train: 7 records are also in the test split (number 1, 2, 3, 5, 8 and 2 more).",
        "train: 1 prompt is, with another answer, also in the test split (number 4).",
        "validation: none of its records is also in the test split.",
        UNCHECKED,
        "retention: none of its prompts is, with another answer, also in the test split.",
    )
