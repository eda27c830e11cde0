"""What the view is told of a running attempt."""

from datetime import UTC, datetime, timedelta

import pytest
import trial_records

from sweeper.records import Event, Notice, Phase, PhaseBegun, Resumed, Started
from sweeper.store.claims import Claim, Owner
from sweeper.sweep.observer import Progress
from sweeper.sweep.watch import Pace, beginning

CLAIM = Claim(
    cell="half/0",
    arm="half",
    seed=0,
    attempt=1,
    fencing_number=1,
    owner=Owner(worker="local", host="h", pid=1, started_at="1.0"),
    slot="cpu 1",
    folder="trials/half-0/attempts/1",
)
BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def event(seconds, record):
    return Event(sequence=1, at=BEGAN + timedelta(seconds=seconds), record=record)


def update(seconds, *, read, loss=2.0):
    record = trial_records.update(target_tokens_read=read, target_tokens_applied=read, loss=loss)
    return event(seconds, record)


@pytest.fixture
def pace():
    return Pace(CLAIM, budget_target_tokens=100)


def test_before_the_first_window_only_the_phase_is_known(pace):
    assert pace.after((event(0, PhaseBegun(phase=Phase.LOADING)),)) == Progress(
        slot="cpu 1",
        cell="half/0",
        phase=Phase.LOADING,
        target_tokens_read=0,
        budget_target_tokens=100,
        loss=None,
        learning_rate=None,
        seconds_left=None,
    )


def test_one_window_tells_how_far_but_not_how_long(pace):
    progress = pace.after((update(5, read=10, loss=3.5),))

    assert (progress.target_tokens_read, progress.loss) == (10, 3.5)
    assert progress.seconds_left is None


def test_the_time_left_follows_the_pace_between_first_and_latest_window(pace):
    """20 tokens took 4 s, so the 70 that are left take 14 s."""
    pace.after((update(5, read=10),))

    assert pace.after((update(9, read=30),)).seconds_left == 14.0


@pytest.mark.parametrize(
    ("differences", "told"),
    [
        ((), "half/0 goes on after window 120 of attempt 1"),
        (
            ("2 ranks then, 1 now",),
            "half/0 goes on after window 120 of attempt 1; 2 ranks then, 1 now",
        ),
    ],
)
def test_an_attempt_that_goes_on_says_from_where(differences, told):
    checkpoint = "/runs/small/trials/half-0/attempts/1/checkpoints/00000120"
    resumed = Resumed(after_window=120, checkpoint=checkpoint, sha256="c0", differences=differences)

    assert beginning("half/0", event(0, resumed)) == told


def test_an_attempt_that_starts_over_says_so_once_it_reads():
    started = Started(
        initial_digest="d0", trainable_parameters=1, adapted_modules=(), environment={}
    )

    assert beginning("half/0", event(0, started)) is None
    assert beginning("half/0", event(0, Notice(message="checkpoint passed over"))) is None
    assert beginning("half/0", update(1, read=10)) == (
        "half/0 starts over: there was no checkpoint to go on from"
    )


def test_a_phase_stays_until_the_next(pace):
    pace.after((event(0, PhaseBegun(phase=Phase.TRAINING)),))

    assert pace.after((update(5, read=10),)).phase is Phase.TRAINING
