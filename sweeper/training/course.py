"""What a trial is to do with its windows: all that is settled before the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.training.exposure import Planned
from sweeper.training.options import EvaluationOptions, TrainingOptions
from sweeper.training.stopping import StopOptions
from sweeper.training.window import HeldOutSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The settings of a trial as its loop needs them.

    Attributes:
        options: `learning_rate` is set.
        held_out: Scored before the first update, on the grid and at the end; validation first.
        micro_batch: Examples per forward pass, in training and in evaluation.
        pad_token_id: Fills up short records; it is masked by length, so any valid id will do.
    """

    options: TrainingOptions
    planned: Planned
    held_out: Sequence[HeldOutSet]
    evaluation: EvaluationOptions
    stop: StopOptions
    micro_batch: int
    pad_token_id: int
