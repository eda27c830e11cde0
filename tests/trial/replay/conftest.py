from __future__ import annotations

from types import SimpleNamespace

import pytest

from sweeper.records import Evaluation, Reason, Skip, Update
from sweeper.training.stopping import Diverged, Stalled, StopOptions
from sweeper.trial.replay.recorded_run import Anomaly, RecordedRun


def update(window, **changes):
    """Returns the record of a window that ran; what a test is about is given by name."""
    facts = {
        "window": window,
        "updates": window,
        "first_record": 4 * (window - 1),
        "records": 4,
        "record_digest": f"{window:064x}",
        "target_tokens": 10,
        "target_tokens_read": 10 * window,
        "target_tokens_applied": 10 * window,
        "input_tokens": 20,
        "padding_tokens": 0,
        "learning_rate": 0.01,
        "loss": 2.0,
        "gradient_norm": 1.0,
        "clipped": False,
        "ran": True,
        "skip": None,
        "seconds": 0.5,
        "peak_memory_bytes": 1,
    }
    return Update(**facts | changes)


def skipped(window, skip):
    """Returns the record of a window without an update."""
    return update(window, ran=False, skip=Skip(skip))


def evaluation(index, window, loss, split="validation"):
    return Evaluation(
        split=split,
        index=index,
        window=window,
        target_tokens_read=10 * window,
        updates=window,
        loss=loss,
        target_tokens=100,
        records=10,
        set_digest="0" * 64,
        dtype="float32",
        micro_batch=2,
        seconds=0.1,
    )


def recorded(updates, evaluations=(), *, reason=None, spec=None):
    """Returns a run that ended for the reason in its last window."""
    last = max((u.window for u in updates), default=0)
    stop = StopOptions(stalled=Stalled(updates=3), diverged=Diverged(nats_above_initial=1.0))
    return RecordedRun(
        folders=(),
        spec=spec or SimpleNamespace(stop=stop),
        started=None,
        updates={u.window: u for u in updates},
        evaluations={(e.split, e.index): e for e in evaluations},
        anomaly=reason and Anomaly(reason=Reason(reason), window=last, detail="why"),
    )


@pytest.fixture(scope="session")
def made():
    """The builders above, by name."""
    return SimpleNamespace(update=update, skipped=skipped, evaluation=evaluation, recorded=recorded)
