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
        "Yes: half (0.0001) is better than baseline by 0.0106 nats per target token (95 % interval "
        "0.0070 to 0.0142)."
    )


def test_no_says_what_shows_it(make_study):
    found = answered(make_study, half=HIGHER, double=LOWER)

    assert found.sentence == (
        "No: double (0.0004) is better than baseline by 0.0106 nats per target token (95 % "
        "interval 0.0070 to 0.0142) and half (0.0001) is worse than baseline by 0.1000 nats per "
        "target token (95 % interval 0.0988 to 0.1012)."
    )


def test_equivalence_is_a_no(make_study):
    found = answered(make_study, half=EQUIVALENT, double=STOPPED)

    assert found.sentence == (
        "No: half (0.0001) differs from baseline by less than 0.005 nats per target token (half - "
        "baseline = 0.0000, 90 % interval -0.0014 to 0.0014)."
    )


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
        "nats per target token (95 % interval 0.0070 to 0.0142) and double (0.0004) is better than "
        "baseline by 0.0106 nats per target token (95 % interval 0.0070 to 0.0142)."
    )


@pytest.mark.parametrize(
    ("double", "finding"),
    [
        (STOPPED, "double (0.0004) was stopped in 5 of 5 seeds."),
        (
            [*HIGHER[:4], Reason.KILLED],
            "double (0.0004) is incomplete. Partial: 1 of 15 trials is missing.",
        ),
        (
            [loss + 0.015 for loss in BASELINE],
            "double (0.0004) - baseline = 0.015 nats per target token (the seeds do not vary).",
        ),
        (
            [loss - 0.001 * d for loss, d in zip(BASELINE, [2, 2.5, 3, 2, 1.5], strict=True)],
            (
                "double (0.0004) - baseline = -0.00220 nats per target token, 95 % interval "
                "-0.00291 to -0.00149 (reliable, but less than matters)."
            ),
        ),
    ],
)
def test_neither_is_not_shown_and_names_arms_differences_and_intervals(make_study, double, finding):
    found = answered(make_study, half=UNCLEAR, double=double)

    assert found.sentence == (
        "Not shown: half (0.0001) - baseline = 0.003 nats per target token, 95 % interval -0.025 "
        f"to 0.032 (no reliable difference); {finding}"
    )


def test_an_arm_that_is_not_comparable_has_no_difference_in_the_answer(make_study, alter):
    study = alter(make_study({"half": LOWER, "baseline": BASELINE}), "half", 0, initial_digest="x")

    assert compare(study).answer.sentence == "Not shown: half (0.0001): not comparable."


def test_two_seeds_have_an_interval_and_no_claim(make_study):
    """Differences -.012 and -.009: standard error .0015, t(.975, 1) = 12.706."""
    assert answered(make_study, n=2, half=LOWER).sentence == (
        "Not shown: half (0.0001) - baseline = -0.0105 nats per target token, 95 % interval "
        "-0.0296 to 0.0086 (too few seeds for a claim)."
    )


def test_a_baseline_that_was_stopped_is_all_there_is_to_say(make_study):
    study = make_study({"half": LOWER, "baseline": [Reason.DIVERGED, *BASELINE[1:]]})

    assert (
        compare(study).answer.sentence == "Not shown: baseline itself was stopped in 1 of 5 seeds."
    )


def test_three_seeds_answer_provisionally(make_study):
    found = answered(make_study, n=3, half=LOWER)

    assert (found.word, found.is_provisional) == (YES, True)
    assert found.sentence == (
        "Yes, provisionally: half (0.0001) is better than baseline by 0.0120 nats per target token "
        "(95 % interval 0.0045 to 0.0195)."
    )


def test_better_in_loss_but_failing_retention_is_said_in_one_sentence(make_study, retain):
    study = retain(
        make_study({"half": LOWER, "baseline": BASELINE}),
        {"half": [3.201, 3.222, 3.179, 3.211, 3.192], "baseline": [3.1, 3.12, 3.08, 3.11, 3.09]},
    )
    found = compare(study).answer

    assert found.word is YES
    assert found.sentence == (
        "Yes: half (0.0001) is better than baseline by 0.0106 nats per target token (95 % interval "
        "0.0070 to 0.0142) in validation loss, but half cannot be chosen (retention guard failed): "
        "baseline is kept."
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
    assert found.sentence == (
        "baseline is kept: no other arm is shown to be better. Found: half (0.0001) - baseline = "
        "0.003 nats per target token, 95 % interval -0.025 to 0.032 (no reliable difference)."
    )


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

    found = compare(study).answer

    assert found.sentence == "Not shown: no arm lies on either side."
