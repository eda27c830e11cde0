"""Two histories are compared bit by bit, and what became of an anomaly has a name of its own."""

from __future__ import annotations

import dataclasses
import math

import pytest

from sweeper.records import Reason, Skip
from sweeper.trial.replay.comparison import (
    evaluation_pairs,
    first_difference,
    verdict,
    window_pairs,
)
from sweeper.trial.replay.recorded_run import Anomaly
from sweeper.trial.replay.report import Difference, Verdict

NEXT_AFTER_2 = math.nextafter(2.0, 3.0)


def anomaly(reason, window):
    return Anomaly(reason=Reason(reason), window=window, detail="")


def test_equal_windows_are_equal_though_they_took_other_seconds_and_memory(made):
    now = made.update(1, seconds=9.0, peak_memory_bytes=7)

    (pair,) = window_pairs({1: made.update(1)}, [now])

    assert pair.is_equal
    assert first_difference({1: made.update(1)}, {}, [now]) is None


@pytest.mark.parametrize(
    ("fact", "was", "now"),
    [
        ("loss", 2.0, NEXT_AFTER_2),
        ("loss", 0.0, -0.0),
        ("loss", math.nan, math.inf),
        ("gradient_norm", 2.0, NEXT_AFTER_2),
        ("learning_rate", 0.01, 0.005),
        ("loss_scale", None, 1024.0),
        ("skip", None, Skip.NO_TARGETS),
        ("clipped", False, True),
        ("record_digest", "a", "b"),
        ("target_tokens", 10, 9),
        ("updates", 1, 0),
        ("target_tokens_applied", 10, 0),
    ],
)
def test_the_last_bit_of_every_fact_counts(made, fact, was, now):
    before, after = made.update(1, **{fact: was}), made.update(1, **{fact: now})

    (pair,) = window_pairs({1: before}, [after])

    assert not pair.is_equal
    assert first_difference({1: before}, {}, [after]).fact == fact


def test_a_nan_is_a_nan(made):
    (pair,) = window_pairs({1: made.update(1, loss=math.nan)}, [made.update(1, loss=math.nan)])

    assert pair.is_equal
    assert (pair.recorded_loss, pair.replayed_loss) == ("nan", "nan")


def test_the_first_difference_is_the_first_in_order_and_nearest_to_the_cause(made):
    """In window 2 rate and loss both differ: the rate is what made the loss another."""
    recorded = {1: made.update(1), 2: made.update(2), 3: made.update(3, loss=7.0)}
    replayed = [made.update(1), made.update(2, learning_rate=0.5, loss=3.0), made.update(3)]

    found = first_difference(recorded, {}, replayed)

    assert found == Difference(
        place="window 2", fact="learning_rate", recorded="0.01", replayed="0.5"
    )


def test_an_evaluation_between_two_windows_comes_before_the_second(made):
    before = made.evaluation(1, 1, 2.0)
    replayed = [
        made.update(1),
        dataclasses.replace(before, loss=NEXT_AFTER_2, seconds=5.0),
        made.update(2, loss=9.0),
    ]

    recorded = {1: made.update(1), 2: made.update(2)}
    found = first_difference(recorded, {("validation", 1): before}, replayed)

    assert (found.place, found.fact) == ("evaluation 1 of validation", "loss")


def test_an_evaluation_that_is_not_on_record_is_not_compared(made):
    assert list(evaluation_pairs({}, [made.evaluation(1, 1, 2.0)])) == []
    assert first_difference({}, {}, [made.evaluation(1, 1, 2.0)]) is None


def test_evaluations_stand_beside_their_record(made):
    before, now = made.evaluation(1, 5, 2.0), made.evaluation(1, 5, math.inf)

    (pair,) = evaluation_pairs({("validation", 1): before}, [now])

    assert (pair.recorded_loss, pair.replayed_loss, pair.is_equal) == (2.0, "inf", False)


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        (("diverged", 7), ("diverged", 7), Verdict.REPRODUCED),
        (("diverged", 7), ("diverged", 6), Verdict.MOVED),
        (("diverged", 7), ("nonfinite_loss", 7), Verdict.ANOTHER),
        (("diverged", 7), None, Verdict.NOT_REPRODUCED),
        (None, ("diverged", 7), Verdict.NEW),
    ],
)
@pytest.mark.parametrize("is_equal", [True, False])
def test_what_became_of_an_anomaly_depends_on_reason_and_window(
    recorded, replayed, expected, is_equal
):
    found = verdict(
        recorded and anomaly(*recorded), replayed and anomaly(*replayed), is_equal=is_equal
    )

    assert found is expected


@pytest.mark.parametrize(
    ("is_equal", "expected"), [(True, Verdict.IDENTICAL), (False, Verdict.DIFFERENT)]
)
def test_without_any_anomaly_the_numbers_decide(is_equal, expected):
    assert verdict(None, None, is_equal=is_equal) is expected
