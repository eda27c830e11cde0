from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.selection.answer import AnswerWord
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import QuestionKind, StudyKind

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
LOWER = [1.590, 1.589, 1.596, 1.597, 1.585]
HIGHER = [1.702, 1.699, 1.710, 1.706, 1.693]
EQUIVALENT = [1.603, 1.596, 1.6115, 1.6065, 1.593]
UNCLEAR = [1.582, 1.618, 1.591, 1.635, 1.600]
STOPPED = [Reason.DIVERGED] * 5

HIGH, LOW = QuestionKind.RATE_TOO_HIGH, QuestionKind.RATE_TOO_LOW
YES, NO, NOT_SHOWN = AnswerWord.YES, AnswerWord.NO, AnswerWord.NOT_SHOWN


def answered(make_study, *, question=HIGH, n=5, **arms):
    losses = {arm: entries[:n] for arm, entries in arms.items()}
    return compare(make_study({"baseline": BASELINE[:n], **losses}, question=question)).answer


@pytest.mark.parametrize(
    ("half", "double", "too_high", "too_low"),
    [
        (LOWER, HIGHER, YES, NO),
        (LOWER, STOPPED, YES, NO),
        (HIGHER, LOWER, NO, YES),
        (UNCLEAR, LOWER, NO, YES),
        (HIGHER, HIGHER, NO, NO),
        (EQUIVALENT, STOPPED, NO, NOT_SHOWN),
        (EQUIVALENT, EQUIVALENT, NO, NO),
        (UNCLEAR, EQUIVALENT, NOT_SHOWN, NO),
        (UNCLEAR, UNCLEAR, NOT_SHOWN, NOT_SHOWN),
        (STOPPED, STOPPED, NOT_SHOWN, NOT_SHOWN),
        (LOWER, LOWER, NOT_SHOWN, NOT_SHOWN),
    ],
)
def test_the_answer_follows_from_the_verdicts(make_study, half, double, too_high, too_low):
    high = answered(make_study, question=HIGH, half=half, double=double)
    low = answered(make_study, question=LOW, half=half, double=double)

    assert (high.word, low.word) == (too_high, too_low)


def test_yes_says_which_arm_shows_it(make_study):
    found = answered(make_study, half=LOWER, double=HIGHER)

    assert not found.is_provisional
    assert found.sentence == (
        "Yes: half (0.0001) is better than baseline by 0.0106 nats per target token."
    )


def test_no_says_what_shows_it(make_study):
    found = answered(make_study, half=HIGHER, double=LOWER)

    assert found.sentence == (
        "No: double (0.0004) is better than baseline by 0.0106 nats per target token and half "
        "(0.0001) is worse than baseline by 0.1000 nats per target token."
    )


def test_equivalence_is_a_no(make_study):
    found = answered(make_study, half=EQUIVALENT, double=STOPPED)

    assert found.sentence == "No: half (0.0001) is equivalent within 0.005 nats."


def test_only_the_nearest_arm_can_say_no(make_study):
    found = answered(make_study, quarter=HIGHER, half=UNCLEAR)

    assert found.word is NOT_SHOWN


def test_a_farther_arm_can_say_yes(make_study):
    """Nothing is said of the nearest, and the farther one is better."""
    found = answered(make_study, quarter=LOWER, half=UNCLEAR)

    assert found.word is YES


def test_both_is_not_shown(make_study):
    found = answered(make_study, half=LOWER, double=LOWER)

    assert found.sentence == (
        "Not shown: the verdicts point both ways: half (0.0001) is better than baseline by 0.0106 "
        "nats per target token and double (0.0004) is better than baseline by 0.0106 nats per "
        "target token."
    )


def test_neither_is_not_shown_and_names_the_verdicts(make_study):
    found = answered(make_study, half=UNCLEAR, double=STOPPED)

    assert found.sentence == (
        "Not shown: no verdict settles it (half: no_reliable_difference and double: unstable:5/5)."
    )


def test_three_seeds_answer_provisionally(make_study):
    found = answered(make_study, n=3, half=LOWER)

    assert (found.word, found.is_provisional) == (YES, True)
    assert found.sentence == (
        "Yes, provisionally: half (0.0001) is better than baseline by 0.0120 nats per target token."
    )


def test_better_in_loss_but_failing_retention_is_said_in_one_sentence(make_study, retain):
    study = retain(
        make_study({"half": LOWER, "baseline": BASELINE}),
        {"half": [3.201, 3.222, 3.179, 3.211, 3.192], "baseline": [3.1, 3.12, 3.08, 3.11, 3.09]},
    )
    found = compare(study).answer

    assert found.word is YES
    assert found.sentence == (
        "Yes: half (0.0001) is better than baseline by 0.0106 nats per target token in validation "
        "loss, but half cannot be chosen (retention guard failed): baseline is kept."
    )


def test_nothing_is_shown_while_trials_are_missing(make_study):
    study = make_study(
        {"half": LOWER, "baseline": BASELINE, "double": [*HIGHER[:4], None]}, closed=False
    )
    found = compare(study).answer

    assert found.word is NOT_SHOWN
    assert found.sentence == (
        "Not shown. Nothing is chosen yet: 1 of 15 trials has neither completed nor been stopped."
    )


def test_which_names_the_chosen_arm(make_study):
    found = answered(make_study, question=QuestionKind.WHICH, half=HIGHER, double=LOWER)

    assert (found.word, found.arm) == (AnswerWord.ARM, "double")
    assert found.sentence.startswith("double is chosen: better than baseline by 0.0106")


def test_which_names_the_baseline_when_it_is_kept(make_study):
    found = answered(make_study, question=QuestionKind.WHICH, half=UNCLEAR)

    assert (found.word, found.arm) == (AnswerWord.ARM, "baseline")


def test_which_names_none_when_nothing_is_chosen(make_study):
    study = make_study(
        {"half": [None, 1.6], "baseline": [Reason.DIVERGED, 1.6]}, question=QuestionKind.WHICH
    )
    found = compare(study).answer

    assert (found.word, found.arm) == (AnswerWord.NONE, None)
    assert found.sentence.startswith("Nothing is chosen: baseline was stopped")


def test_arms_without_an_order_are_on_no_side(make_study):
    study = make_study(
        {"half": LOWER, "baseline": BASELINE},
        kind=StudyKind.PRECISION,
        factor="training.learning_rate",
        values={"half": "bfloat16", "baseline": "float32"},
    )

    assert compare(study).answer.word is NOT_SHOWN
