"""Stop conditions, agreed in the study before the first trial.

A condition is one frozen option class here, and its name in `StopOptions` at the foot. The
code that asks them is `training/watch.py`.
"""

from __future__ import annotations

from typing import Literal

from sweeper.options import Options, Positive, PositiveNumber


class Nonfinite(Options):
    """Consecutive windows with a loss, or a gradient norm, that is not finite."""

    loss: Positive = 1
    gradient: Positive = 1


class NoUpdates(Options):
    """Consecutive windows that ended in no update, whatever the cause."""

    windows: Positive = 20


class Stalled(Options):
    """Updates that ran without moving any trainable weight."""

    updates: Positive = 50


class Diverged(Options):
    """Evaluations in a row with a validation loss this far above the initial one."""

    nats_above_initial: PositiveNumber = 1.0
    evaluations: Positive = 2


class StopOptions(Options):
    """All conditions of a study."""

    nonfinite: Nonfinite = Nonfinite()
    no_updates: NoUpdates = NoUpdates()
    stalled: Stalled = Stalled()
    diverged: Diverged = Diverged()
    study: Literal["baseline_failed", "never"] = "baseline_failed"
