"""Asks the stop conditions, on records alone. Torch-free.

A condition is a function from the history and the options to the sentence that says why it fired,
or None. It is asked after every window or every evaluation, the last included; the first that
fires, in the order of `_AFTER_WINDOW`, is the reason. To add one: its options in `stopping.py`, a
function here, a line in the table at the foot.

What counts:
    nonfinite   windows in a row whose loss (or gradient norm) was not finite; any other window,
                one without targets included, starts the row anew. A held-out loss that is not
                finite fires at once.
    no_updates  windows in a row without an update, whatever the cause.
    stalled     updates in a row that ran, at a rate above zero, and left every trainable weight as
                it was, bit by bit. Skipped windows neither add to the row nor end it.
    diverged    validation losses in a row that lie too far above the one before the first update.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.records import Evaluation, Reason, Skip, Stop, Update
from sweeper.training.stopping import StopOptions

VALIDATION = "validation"


@dataclass(slots=True, kw_only=True)
class _History:
    """What the conditions look at. Lengths are of the row that ends at the latest window."""

    window: int = 0
    updates: int = 0
    target_tokens_read: int = 0
    loss: float | None = None
    gradient_norm: float | None = None
    learning_rate: float | None = None
    skip: Skip | None = None
    last_finite_loss: float | None = None
    last_finite_window: int = 0
    nonfinite_losses: int = 0
    nonfinite_gradients: int = 0
    without_update: int = 0
    unmoved_updates: int = 0
    initial_validation_loss: float | None = None
    validation_loss: float | None = None
    evaluation_index: int = 0
    diverged_evaluations: int = 0


class Watch:
    """Remembers what has happened and says when a stop condition fires."""

    def __init__(self, options: StopOptions) -> None:
        self._options = options
        self._history = _History()

    def remembered(self) -> dict[str, str | int | float | None]:
        """Returns what has been remembered so far, as plain values."""
        return dataclasses.asdict(self._history)

    def remember(self, remembered: Mapping[str, str | int | float | None]) -> None:
        """Takes over what another watch has remembered."""
        skip = remembered["skip"]
        facts = {**remembered, "skip": None if skip is None else Skip(str(skip))}
        self._history = _History(**facts)  # type: ignore[arg-type]  # `remembered` gave them

    def after_window(self, update: Update, *, moved: bool) -> Stop | None:
        """Returns the stop that a window brings about, if any.

        Args:
            update: The window's record.
            moved: Whether the update changed any bit of any trainable weight; for a window without
                an update it is not looked at.
        """
        _remember_window(self._history, update, moved=moved)
        for reason, why in _AFTER_WINDOW:
            detail = why(self._history, self._options)
            if detail is not None:
                return self._stop(reason, detail)
        return None

    def after_evaluation(self, evaluation: Evaluation) -> Stop | None:
        """Returns the stop that the evaluation of a split brings about, if any."""
        if not math.isfinite(evaluation.loss):
            detail = (
                f"the {evaluation.split} loss was {evaluation.loss} at evaluation"
                f" {evaluation.index}; {_last_finite(self._history)}"
            )
            return self._stop(Reason.NONFINITE_LOSS, detail)
        if evaluation.split != VALIDATION:
            return None
        _remember_validation(self._history, evaluation, self._options)
        detail_or_none = _diverged(self._history, self._options)
        return None if detail_or_none is None else self._stop(Reason.DIVERGED, detail_or_none)

    def after_parameters(self, nonfinite: Sequence[str]) -> Stop | None:
        """Returns the stop that trainable tensors with nonfinite values bring about, if any.

        Args:
            nonfinite: Names of the trainable tensors that hold such a value.
        """
        if not nonfinite:
            return None
        detail = (
            f"{len(nonfinite)} trainable tensors hold values that are not finite after update"
            f" {self._history.updates}, the first being {nonfinite[0]};"
            f" {_last_finite(self._history)}"
        )
        return self._stop(Reason.NONFINITE_PARAMETER, detail)

    def _stop(self, reason: Reason, detail: str) -> Stop:
        return Stop(
            reason=reason,
            detail=f"{detail[0].upper()}{detail[1:]}.",
            window=self._history.window,
            updates=self._history.updates,
            target_tokens_read=self._history.target_tokens_read,
            last_finite_loss=self._history.last_finite_loss,
        )


def _remember_window(history: _History, update: Update, *, moved: bool) -> None:
    history.window = update.window
    history.updates = update.updates
    history.target_tokens_read = update.target_tokens_read
    history.loss = update.loss
    history.gradient_norm = update.gradient_norm
    history.learning_rate = update.learning_rate
    history.skip = update.skip
    if update.loss is not None and math.isfinite(update.loss):
        history.last_finite_loss = update.loss
        history.last_finite_window = update.window
    history.nonfinite_losses = _row(history.nonfinite_losses, update.skip, Skip.NONFINITE_LOSS)
    history.nonfinite_gradients = _row(
        history.nonfinite_gradients, update.skip, Skip.NONFINITE_GRADIENT
    )
    history.without_update = 0 if update.ran else history.without_update + 1
    if update.ran and moved:
        history.unmoved_updates = 0
    elif update.ran and update.learning_rate:
        history.unmoved_updates += 1


def _remember_validation(history: _History, evaluation: Evaluation, options: StopOptions) -> None:
    if history.initial_validation_loss is None:
        history.initial_validation_loss = evaluation.loss
    history.validation_loss = evaluation.loss
    history.evaluation_index = evaluation.index
    highest = history.initial_validation_loss + options.diverged.nats_above_initial
    above = evaluation.loss > highest
    history.diverged_evaluations = history.diverged_evaluations + 1 if above else 0


def _row(length: int, skip: Skip | None, counted: Skip) -> int:
    return length + 1 if skip is counted else 0


def _nonfinite_loss(history: _History, options: StopOptions) -> str | None:
    if history.nonfinite_losses < options.nonfinite.loss:
        return None
    return (
        f"the loss of window {history.window} was {history.loss}"
        f" (windows in a row: {history.nonfinite_losses}, agreed limit: {options.nonfinite.loss});"
        f" {_last_finite(history)}"
    )


def _nonfinite_gradient(history: _History, options: StopOptions) -> str | None:
    limit = options.nonfinite.gradient
    if history.nonfinite_gradients < limit:
        return None
    return (
        f"the gradient norm of window {history.window} was {history.gradient_norm}"
        f" (windows in a row: {history.nonfinite_gradients}, agreed limit: {limit});"
        f" {_last_finite(history)}"
    )


def _no_updates(history: _History, options: StopOptions) -> str | None:
    if history.without_update < options.no_updates.windows:
        return None
    first = history.window - history.without_update + 1
    return (
        f"windows {first} to {history.window} ended in no update"
        f" (windows in a row: {history.without_update},"
        f" agreed limit: {options.no_updates.windows}), the last one because of {history.skip};"
        f" {_last_finite(history)}"
    )


def _stalled(history: _History, options: StopOptions) -> str | None:
    if history.unmoved_updates < options.stalled.updates:
        return None
    return (
        f"{history.unmoved_updates} updates in a row ran without moving any trainable weight"
        f" (agreed limit: {options.stalled.updates}), the last one being update {history.updates}"
        f" at rate {history.learning_rate} with gradient norm {history.gradient_norm};"
        f" {_last_finite(history)}"
    )


def _diverged(history: _History, options: StopOptions) -> str | None:
    if history.diverged_evaluations < options.diverged.evaluations:
        return None
    return (
        f"the validation loss was {_nats(history.validation_loss)} at evaluation"
        f" {history.evaluation_index}, more than {options.diverged.nats_above_initial} above the"
        f" initial {_nats(history.initial_validation_loss)} (evaluations in a row:"
        f" {history.diverged_evaluations}, agreed limit: {options.diverged.evaluations})"
    )


def _last_finite(history: _History) -> str:
    if history.last_finite_loss is None:
        return "no window before it had a finite loss"
    return (
        f"the last finite loss was {_nats(history.last_finite_loss)} nats per target token in"
        f" window {history.last_finite_window}"
    )


def _nats(loss: float | None) -> str:
    return f"{loss:.6g}"


_Condition = Callable[[_History, StopOptions], str | None]

_AFTER_WINDOW: tuple[tuple[Reason, _Condition], ...] = (
    (Reason.NONFINITE_LOSS, _nonfinite_loss),
    (Reason.NONFINITE_GRADIENT, _nonfinite_gradient),
    (Reason.NO_UPDATES, _no_updates),
    (Reason.STALLED_UPDATES, _stalled),
)
