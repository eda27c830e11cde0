"""Where what ended a trial began, as far as its record shows. Pure, torch-free.

A stop condition fires at the end of a row: of windows, or of evaluations. A replay that is to show
where things went wrong has to begin before the row, and before the windows that led to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial

from sweeper.records import Evaluation, Reason, Skip, Update
from sweeper.trial.replay.recorded_run import RecordedRun

_VALIDATION = "validation"


def onset(run: RecordedRun) -> int:
    """Returns the first window that may have had a part in what ended the trial.

    For a row of windows it is the first of them. For what an evaluation has found it is the first
    window after the last evaluation that found nothing. Of a trial that nothing of its own ended it
    is the last window.
    """
    reason = None if run.anomaly is None else run.anomaly.reason
    updates = [run.updates[window] for window in sorted(run.updates)]
    match reason:
        case Reason.NONFINITE_LOSS if _is(updates[-1], Skip.NONFINITE_LOSS):
            return _row(updates, partial(_is, skip=Skip.NONFINITE_LOSS))
        case Reason.NONFINITE_GRADIENT:
            return _row(updates, partial(_is, skip=Skip.NONFINITE_GRADIENT))
        case Reason.NO_UPDATES:
            return _row(updates, lambda update: not update.ran)
        case Reason.STALLED_UPDATES:
            return _of_the_last(updates, run.spec.stop.stalled.updates)
        case Reason.DIVERGED | Reason.NONFINITE_PARAMETER | Reason.NONFINITE_LOSS:
            return _after_the_last_sound(run)
    return run.last_window


def _is(update: Update, skip: Skip) -> bool:
    return update.skip is skip


def _row(updates: list[Update], belongs: Callable[[Update], bool]) -> int:
    """Returns the first window of the row of such windows that the last one ends."""
    row = list(itertools.takewhile(belongs, reversed(updates)))
    return row[-1].window if row else updates[-1].window


def _of_the_last(updates: list[Update], count: int) -> int:
    """Returns the window of the first of the last updates that ran."""
    ran = [update.window for update in updates if update.ran]
    return ran[-count:][0] if ran else updates[-1].window


def _after_the_last_sound(run: RecordedRun) -> int:
    validations = [e for e in run.evaluations.values() if e.split == _VALIDATION]
    sound = (e.window for e in _sound(validations, run) if e.window < run.last_window)
    return max(sound, default=0) + 1


def _sound(validations: list[Evaluation], run: RecordedRun) -> Iterable[Evaluation]:
    """Yields those that are finite and, as far as the initial one is known, not too far above it.

    Comparing with NaN is false, so what is not finite is not sound either.
    """
    initial = [e.loss for e in validations if e.index == 0]
    limit = run.spec.stop.diverged.nats_above_initial
    highest = initial[0] + limit if initial else float("inf")
    return (e for e in validations if e.loss <= highest and e.loss < float("inf"))
