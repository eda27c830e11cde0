"""What a replay found, in sentences."""

import pytest

from sweeper.cli.replay_wording import heading, sentences
from sweeper.trial.replay.report import (
    Changed,
    Difference,
    Ending,
    EvaluationPair,
    Nonfinite,
    ReplayReport,
    Steepest,
    Verdict,
    WindowPair,
)

DIVERGED = Ending(reason="diverged", window=17, detail="It went up.")
HALVED = Changed(key="training.learning_rate", was="0.02", now="0.01")


def pair(window, *, recorded=2.0, replayed=2.0):
    return WindowPair(
        window=window,
        recorded_loss=recorded,
        replayed_loss=replayed,
        recorded_gradient_norm=1.0,
        replayed_gradient_norm=1.0,
        recorded_skip=None,
        replayed_skip=None,
        is_equal=recorded == replayed,
    )


def report(**changes):
    facts = {
        "trial": "double/2",
        "attempt": 1,
        "change": None,
        "checkpoint": "/runs/checkpoints/00000015",
        "first_window": 16,
        "last_window": 17,
        "planned_windows": 40,
        "recorded": DIVERGED,
        "replayed": DIVERGED,
        "verdict": Verdict.REPRODUCED,
        "windows": (pair(16), pair(17)),
        "evaluations": (),
        "first_difference": None,
        "nonfinite": (),
        "steepest": None,
        "is_exact": True,
        "notices": (),
    }
    return ReplayReport(**facts | changes)


def told(**changes):
    return list(sentences(report(**changes)))


def test_an_anomaly_that_reproduces():
    assert told() == [
        (
            "Replayed windows 16 to 17 of 40 from the checkpoint after window 15, with nothing"
            " changed."
        ),
        "It reproduces: diverged in window 17, as on record.",
        "All that was compared is equal bit for bit: 2 windows, 0 evaluations.",
    ]


def test_one_that_does_not_with_half_the_rate():
    evaluation = EvaluationPair(
        split="validation", index=3, window=17, recorded_loss=9.0, replayed_loss=1.5, is_equal=False
    )
    difference = Difference(
        place="window 16", fact="learning_rate", recorded="0.02", replayed="0.01"
    )

    lines = told(
        change=HALVED,
        replayed=None,
        verdict=Verdict.NOT_REPRODUCED,
        windows=(pair(16), pair(17, recorded=8.0, replayed=1.25)),
        evaluations=(evaluation,),
        first_difference=difference,
        is_exact=False,
    )

    assert lines == [
        (
            "Replayed windows 16 to 17 of 40 from the checkpoint after window 15, with"
            " training.learning_rate 0.01 instead of 0.02."
        ),
        (
            "It does not reproduce with learning_rate 0.01: no diverged up to window 17, which"
            " ended with loss 1.2500, validation loss 1.5000."
        ),
        (
            "The first difference from the record is learning_rate in window 16: 0.02 on record,"
            " 0.01 now."
        ),
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"verdict": Verdict.MOVED, "replayed": Ending(reason="diverged", window=16, detail="")},
            "It comes again elsewhere: diverged in window 16, on record in window 17.",
        ),
        (
            {
                "verdict": Verdict.ANOTHER,
                "replayed": Ending(reason="nonfinite_loss", window=16, detail="It was nan."),
            },
            (
                "It ended for another reason: nonfinite_loss in window 16; on record is diverged."
                " It was nan."
            ),
        ),
        (
            {"verdict": Verdict.NEW, "recorded": None},
            "It ended as the trial had not: diverged in window 17. It went up.",
        ),
        (
            {"verdict": Verdict.IDENTICAL, "recorded": None, "replayed": None},
            "It reproduces bit for bit: 2 windows, 0 evaluations.",
        ),
        (
            {"verdict": Verdict.DIFFERENT, "recorded": None, "replayed": None},
            "It came to window 17, which ended with loss 2.0000.",
        ),
        (
            {
                "verdict": Verdict.NOT_REPRODUCED,
                "replayed": None,
                "change": Changed(key="record", was="record 3 (ab) in window 16", now="left out"),
            },
            (
                "It does not reproduce without the record: no diverged up to window 17, which ended"
                " with loss 2.0000."
            ),
        ),
    ],
    ids=["moved", "another", "new", "identical", "different", "without a record"],
)
def test_what_became_of_it(changes, sentence):
    assert told(**changes)[1] == sentence


def test_a_record_that_was_left_out_is_told():
    change = Changed(key="record", was="record 3 (ab) in window 16", now="left out")

    assert told(change=change)[0].endswith("with record 3 (ab) in window 16 left out.")


def test_a_single_window_from_the_beginning():
    line = told(checkpoint=None, first_window=17, last_window=17)[0]

    assert line == "Replayed window 17 of 40 from the beginning, with nothing changed."


def test_where_it_went_wrong():
    place = Nonfinite(
        window=17,
        micro_batch=2,
        records=(12, 88),
        is_loss=True,
        module="layers.0.mlp",
        gradient="layers.0.mlp.weight",
        weight=None,
    )

    assert told(nonfinite=(place,))[-1] == (
        "Window 17, micro-batch 2 (records 12, 88): its loss is not finite; the first module with"
        " an output that is not: layers.0.mlp; the first gradient: layers.0.mlp.weight; the first"
        " weight: none."
    )


def test_weights_that_the_update_left_nonfinite():
    place = Nonfinite(
        window=17, micro_batch=None, records=(), is_loss=False, module=None, gradient=None,
        weight="head",
    )  # fmt: skip

    assert told(nonfinite=(place,))[-1] == (
        "Window 17: all was finite until the update; after it head holds values that are not."
    )


def test_of_many_windows_three_are_told():
    place = Nonfinite(
        window=17, micro_batch=None, records=(), is_loss=False, module=None, gradient=None,
        weight="head",
    )  # fmt: skip

    lines = told(nonfinite=(place,) * 4)

    assert len([line for line in lines if line.startswith("Window 17")]) == 3
    assert lines[-1] == "Something was not finite in 1 more window (--json lists all)."


STEEPEST = Steepest(
    window=17, micro_batch=1, records=tuple(range(10)), loss=9.0, tensor="head", share=0.625
)


def test_where_all_was_finite_what_stands_out_is_told():
    assert told(steepest=STEEPEST)[-1] == (
        "Everything was finite. In window 17 the loss was highest in micro-batch 1 (records 0, 1,"
        " 2, 3, 4, 5, 6, 7 and 2 more), 9.0000 nats per target token; the largest gradient was"
        " that of head, 62% of the squared norm."
    )


def test_of_a_trial_that_nothing_went_wrong_with_nothing_stands_out():
    lines = told(steepest=STEEPEST, recorded=None, replayed=None, verdict=Verdict.IDENTICAL)

    assert len(lines) == 2


def test_where_nothing_was_changed_the_size_of_the_difference_is_told():
    """2.0 against 2.5 is a quarter of its value."""
    difference = Difference(
        place="window 17", fact="record_digest", recorded="a" * 64, replayed="b" * 64
    )

    lines = told(windows=(pair(16), pair(17, replayed=2.5)), first_difference=difference)

    assert lines[2] == (
        "The first difference from the record is record_digest in window 17: aaaaaaaaaaaa... on"
        " record, bbbbbbbbbbbb... now. Finite losses differ by at most 2.5e-01 of their value."
    )


def test_notices_come_last():
    assert told(notices=("torch was 1.0, now 2.0",))[-1] == "Note: torch was 1.0, now 2.0."


def test_the_heading_is_how_the_attempt_ended():
    ended = {"outcome": "stopped", "reason": "diverged", "detail": "It went up."}
    running = {"outcome": None, "reason": None, "detail": None}

    assert heading(report(), ended) == "double/2, attempt 1, stopped (diverged): It went up."
    assert heading(report(), running) == (
        "double/2, attempt 1, has not ended, as far as is on record"
    )
