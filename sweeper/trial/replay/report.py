"""What a replay found, as plain values. Torch-free, so that the command line can read it.

JSON has no NaN: a number that is not finite is its name, as in events.
"""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Literal

from sweeper.options import Options

Number = float | Literal["nan", "inf", "-inf"] | None


def number(value: float | None) -> Number:
    """Returns the value as a report holds it."""
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


class Verdict(StrEnum):
    """What became of the anomaly on record; of the numbers, where there is none."""

    REPRODUCED = "reproduced"
    """The same reason in the same window."""
    MOVED = "moved"
    """The same reason in another window."""
    ANOTHER = "another"
    """It ended for another reason."""
    NOT_REPRODUCED = "not_reproduced"
    """Nothing ended it up to the last window on record."""
    IDENTICAL = "identical"
    """There is no anomaly on record, none came, and every number is the same to the bit."""
    DIFFERENT = "different"
    """There is none on record, none came, but some number is another."""
    NEW = "new"
    """There is none on record, but one came."""


class Changed(Options):
    """The one thing that was changed.

    Attributes:
        key: Of the study file, or `record`.
        was: As it was in the attempt.
        now: As it is in the replay.
    """

    key: str
    was: str
    now: str


class Ending(Options):
    """How an attempt, or its replay, came to an end by itself.

    Attributes:
        window: The last one read.
    """

    reason: str
    window: int
    detail: str


class WindowPair(Options):
    """One window as it was recorded and as it was replayed.

    Attributes:
        is_equal: Whether everything that both report of it is the same, to the bit.
    """

    window: int
    recorded_loss: Number
    replayed_loss: Number
    recorded_gradient_norm: Number
    replayed_gradient_norm: Number
    recorded_skip: str | None
    replayed_skip: str | None
    is_equal: bool


class EvaluationPair(Options):
    """One evaluation likewise."""

    split: str
    index: int
    window: int
    recorded_loss: Number
    replayed_loss: Number
    is_equal: bool


class Difference(Options):
    """Something that is not as it was recorded.

    Attributes:
        place: `window 12`, or `evaluation 3 of validation`.
        fact: Which of the reported facts it is, by its name in the record.
    """

    place: str
    fact: str
    recorded: str
    replayed: str


class Nonfinite(Options):
    """The first place within a window where something was not finite.

    Attributes:
        micro_batch: From 1; None: everything was finite until the update.
        records: Indices of its records in the training split.
        is_loss: Whether the loss of the micro-batch was not finite.
        module: The first module, in the order of computation, whose output was not.
        gradient: The first trainable tensor, in the model's order, with such a gradient.
        weight: The first one that holds such a value itself.
    """

    window: int
    micro_batch: int | None
    records: tuple[int, ...]
    is_loss: bool
    module: str | None
    gradient: str | None
    weight: str | None


class Steepest(Options):
    """What stands out in the last window that was replayed.

    Attributes:
        micro_batch: The one with the highest loss per target token.
        records: Indices of its records in the training split.
        loss: Of it, in nats per target token.
        tensor: The trainable tensor with the largest gradient.
        share: Of the squared norm of all gradients.
    """

    window: int
    micro_batch: int
    records: tuple[int, ...]
    loss: Number
    tensor: str
    share: Number


class ReplayReport(Options):
    """One replay.

    Attributes:
        change: None: nothing was changed.
        checkpoint: The folder that it began from; None: from the beginning.
        first_window: The first one that was run again.
        last_window: The last one on record.
        planned_windows: Of the whole trial.
        recorded: How the attempt ended, if a stop condition or an error of its own ended it.
        replayed: Likewise; None: the replay came to the last window on record.
        windows: Those that were replayed, in order.
        evaluations: Those that were made again and are on record, in order.
        first_difference: None: there is none.
        nonfinite: Windows in which something was not finite, in order.
        steepest: None where no gradient was computed.
        is_exact: Whether equality to the bit was to be expected: nothing was changed, and the
            device, the libraries and the number of ranks are what they were.
        notices: What else is to be known, as sentences.
    """

    trial: str
    attempt: int
    change: Changed | None
    checkpoint: str | None
    first_window: int
    last_window: int
    planned_windows: int
    recorded: Ending | None
    replayed: Ending | None
    verdict: Verdict
    windows: tuple[WindowPair, ...]
    evaluations: tuple[EvaluationPair, ...]
    first_difference: Difference | None
    nonfinite: tuple[Nonfinite, ...]
    steepest: Steepest | None
    is_exact: bool
    notices: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> ReplayReport:
        """Returns the report that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the report as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
