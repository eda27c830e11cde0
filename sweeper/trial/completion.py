"""What must hold before an attempt may call itself complete."""

from __future__ import annotations

import math
from collections.abc import Callable

from sweeper.records import Evaluation, Outcome, Reason, Record, Update
from sweeper.training.trainable import Trainable, nonfinite


class Witness:
    """Passes records on and remembers what a completion is measured by."""

    def __init__(self, emit: Callable[[Record], None], *, target_tokens_read: int = 0) -> None:
        self._emit = emit
        self.target_tokens_read = target_tokens_read
        """So far; of the attempts before it at first."""
        self.validation_loss: float | None = None
        """Of the last evaluation of the validation split, in nats per target token."""

    def emit(self, record: Record) -> None:
        """Remembers and passes on."""
        if isinstance(record, Update):
            self.target_tokens_read = record.target_tokens_read
        elif isinstance(record, Evaluation) and record.split == "validation":
            self.validation_loss = record.loss
        self._emit(record)


def unsound(witness: Witness, tensors: Trainable, *, planned_target_tokens: int) -> Outcome | None:
    """Returns the outcome of an attempt that is not complete though its loop ended; else None.

    The loop looks at all of this itself; what is compared and kept depends on it, so nothing is
    saved before it was looked at again, from outside.
    """
    if witness.target_tokens_read != planned_target_tokens:
        read = witness.target_tokens_read
        detail = f"read {read} of {planned_target_tokens} planned target tokens"
        return Outcome(reason=Reason.BUDGET_MISMATCH, detail=detail)
    if names := nonfinite(tensors):
        detail = f"{len(names)} trainable tensors are not finite, {names[0]} first"
        return Outcome(reason=Reason.NONFINITE_PARAMETER, detail=detail)
    if witness.validation_loss is None or not math.isfinite(witness.validation_loss):
        detail = f"the last validation loss is {witness.validation_loss}"
        return Outcome(reason=Reason.NONFINITE_LOSS, detail=detail)
    return None
