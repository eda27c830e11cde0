"""The training loop: windows in, records out.

`train` is the whole of it, on one page. What varies is handed in; what happened is reported by
`emit`, and how it ended is the value that it returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sweeper.records import Notice, Outcome, Reason, Record, Skip, Stop, Update
from sweeper.training.batch import make_batches
from sweeper.training.evaluation import Examination
from sweeper.training.exposure import Exposure, Planned
from sweeper.training.grid import Grid
from sweeper.training.loss import Objective
from sweeper.training.memory import peak_memory_bytes
from sweeper.training.optimizer import make_optimizer, set_rate
from sweeper.training.options import EvaluationOptions, TrainingOptions
from sweeper.training.precision import resolve_precision
from sweeper.training.schedule import count_of, rate
from sweeper.training.stopping import StopOptions
from sweeper.training.trainable import (
    Motion,
    Trainable,
    check_dtype,
    clip_gradients,
    gradient_norm,
    name_some,
    refuse_missing_gradients,
    trainable,
    with_zero_gradient,
)
from sweeper.training.unbuilt import refuse_training
from sweeper.training.watch import Watch
from sweeper.training.window import HeldOutSet, Window


def train(  # noqa: PLR0913  # each is named once, by the one caller that puts a trial together
    model: nn.Module,
    *,
    windows: Iterable[Window],
    held_out: Sequence[HeldOutSet],
    options: TrainingOptions,
    planned: Planned,
    evaluation: EvaluationOptions,
    stop: StopOptions,
    micro_batch: int,
    pad_token_id: int,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    clock: Callable[[], float],
) -> Outcome:
    """Trains the model in place and returns how it ended; neither loads nor saves.

    Args:
        model: Its trainable tensors are those that require a gradient. Dropout draws from torch's
            random state, which the caller seeds.
        held_out: Scored before the first update, on the grid and at the end; validation first.
        options: `learning_rate` is set.
        pad_token_id: Fills up short records; it is masked by length, so any valid id will do.
        interrupted: Asked after every window; true ends the trial as preempted.
        clock: Monotonic seconds.

    Raises:
        ModelError: The model cannot be trained as asked, or a trainable tensor gets no gradient.
    """
    refuse_training(options)
    tensors = trainable(model)
    objective = Objective(model, resolve_precision(options.precision, model))
    check_dtype(tensors, objective.precision)
    optimizer = make_optimizer(tensors, options.optimizer)
    watch, motion, exposure = Watch(stop), Motion(tensors), Exposure()
    examination = Examination(
        model=model, objective=objective, tensors=tensors, held_out=held_out, watch=watch,
        grid=Grid.of(evaluation, planned), micro_batch=micro_batch, pad_token_id=pad_token_id,
        emit=emit, clock=clock,
    )  # fmt: skip
    _tell_if_whole_model_runs(objective, emit)
    model.train()
    if stopped := examination.at_start():
        return _stop(stopped, emit)

    for window in windows:
        began, before, tried = clock(), exposure, _Tried()
        if window.target_tokens > 0:
            tried.learning_rate = set_rate(optimizer, _rate(options, planned, before, window))
            for batch in make_batches(window.examples, micro_batch, pad_token_id):
                loss_sum = objective(batch)
                torch.autograd.backward(loss_sum / window.target_tokens)
                tried.loss_sums.append(loss_sum.detach())
                tried.padding_tokens += batch.padding_tokens
            _audit_gradients(tensors, before.updates, emit)
            norm = gradient_norm(tensors)
            tried.loss, tried.gradient_norm = _floats(tried.loss_sum() / window.target_tokens, norm)
            tried.skip = _why_not(tried.loss, tried.gradient_norm)
            if tried.skip is None:
                tried.clipped = clip_gradients(tensors, norm, options.clip_norm)
                optimizer.step()
            optimizer.zero_grad()
        exposure = before.after(window, ran=tried.ran)
        emit(update := _record(window, tried, exposure, objective.device, clock() - began))
        stopped = watch.after_window(update, moved=tried.ran and motion.happened())
        if stopped is None and interrupted():
            return _preempted(exposure, planned)
        if stopped := stopped or examination.when_due(before, exposure):
            return _stop(stopped, emit)
    if mismatch := exposure.mismatch(planned):
        return Outcome(reason=Reason.BUDGET_MISMATCH, detail=mismatch)
    if stopped := examination.at_end(exposure):
        return _stop(stopped, emit)
    return _completed(exposure)


@dataclass(slots=True)
class _Tried:
    """What has come of one window so far; the loop fills it in, window by window."""

    learning_rate: float | None = None
    loss: float | None = None
    gradient_norm: float | None = None
    clipped: bool = False
    skip: Skip | None = Skip.NO_TARGETS
    padding_tokens: int = 0
    loss_sums: list[Tensor] = field(default_factory=list)

    def loss_sum(self) -> Tensor:
        return torch.stack(self.loss_sums).sum()

    @property
    def ran(self) -> bool:
        return self.skip is None


def _rate(options: TrainingOptions, planned: Planned, before: Exposure, window: Window) -> float:
    assert options.learning_rate is not None, "the plan gives every arm its rate"
    count = count_of(
        options.schedule,
        updates=before.updates + 1,
        target_tokens=before.target_tokens_applied + window.target_tokens,
    )
    return rate(options.schedule, peak=options.learning_rate, count=count, planned=planned)


def _floats(loss: Tensor, norm: Tensor) -> tuple[float, float]:
    """Fetches both in one transfer from the device."""
    loss_value, norm_value = torch.stack((loss, norm.to(loss))).tolist()
    return loss_value, norm_value


def _why_not(loss: float, norm: float) -> Skip | None:
    """Returns why the update is not run; a finite norm proves no finite loss, nor the reverse."""
    if not math.isfinite(loss):
        return Skip.NONFINITE_LOSS
    return None if math.isfinite(norm) else Skip.NONFINITE_GRADIENT


def _audit_gradients(tensors: Trainable, updates: int, emit: Callable[[Record], None]) -> None:
    """Checks that training reaches every tensor.

    An adapter's B starts at zero, so its A has a gradient of exactly zero at update 1: A is looked
    at one update later.
    """
    if updates == 0:
        refuse_missing_gradients(tensors)
    part = {0: "lora_B", 1: "lora_A"}.get(updates)
    unreached = with_zero_gradient(tensors, part=part) if part else ()
    if unreached:
        message = f"at update {updates + 1} these had a gradient of exactly zero: "
        emit(Notice(message=message + name_some(unreached)))


def _record(
    window: Window, tried: _Tried, exposure: Exposure, device: torch.device, seconds: float
) -> Update:
    return Update(
        window=window.index,
        updates=exposure.updates,
        first_record=window.first_record,
        records=len(window.examples),
        record_digest=window.record_digest,
        target_tokens=window.target_tokens,
        target_tokens_read=exposure.target_tokens_read,
        target_tokens_applied=exposure.target_tokens_applied,
        input_tokens=window.input_tokens,
        padding_tokens=tried.padding_tokens,
        learning_rate=tried.learning_rate,
        loss=tried.loss,
        gradient_norm=tried.gradient_norm,
        clipped=tried.clipped,
        ran=tried.ran,
        skip=tried.skip,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes(device),
    )


def _tell_if_whole_model_runs(objective: Objective, emit: Callable[[Record], None]) -> None:
    if objective.split is None:
        message = (
            "logits are computed at every position, not at supervised ones only: this architecture"
            " is not just a body and a linear head"
        )
        emit(Notice(message=message))


def _stop(stop: Stop, emit: Callable[[Record], None]) -> Outcome:
    emit(stop)
    evidence = {
        "window": str(stop.window),
        "updates": str(stop.updates),
        "target_tokens_read": str(stop.target_tokens_read),
    }
    if stop.last_finite_loss is not None:
        evidence["last_finite_loss"] = repr(stop.last_finite_loss)
    return Outcome(reason=stop.reason, detail=stop.detail, evidence=evidence)


def _preempted(exposure: Exposure, planned: Planned) -> Outcome:
    detail = (
        f"Asked to end after window {exposure.windows} of {planned.windows}, with"
        f" {exposure.target_tokens_read} of {planned.target_tokens} target tokens read."
    )
    return Outcome(reason=Reason.PREEMPTED, detail=detail)


def _completed(exposure: Exposure) -> Outcome:
    detail = (
        f"Read {exposure.target_tokens_read} target tokens in {exposure.windows} windows,"
        f" {exposure.updates} of which ended in an update."
    )
    return Outcome(reason=Reason.BUDGET_REACHED, detail=detail)
