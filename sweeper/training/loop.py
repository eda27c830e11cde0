"""The training loop: windows in, records out.

`train` is the whole of it, and the two functions below it are what it does with one window. What
varies is handed in; what happened is reported by `emit`, and how it ended is the value returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.amp import GradScaler

from sweeper.records import Notice, Outcome, Phase, Record, Skip, Update
from sweeper.training.activations import recompute_activations
from sweeper.training.agreement import begin_together
from sweeper.training.anatomy import anatomy, has_nonfinite_gradient
from sweeper.training.batch import make_batches
from sweeper.training.course import Course
from sweeper.training.end import End
from sweeper.training.evaluation import Examination
from sweeper.training.exposure import Exposure
from sweeper.training.keeper import Keeper, Keeping
from sweeper.training.loss import Objective
from sweeper.training.memory import peak_memory_bytes
from sweeper.training.optimizer import make_optimizer, set_rate
from sweeper.training.phases import Phases
from sweeper.training.precision import resolve_precision
from sweeper.training.probe import NO_PROBE, Probe
from sweeper.training.ranks import ALONE, Ranks, sum_gradients
from sweeper.training.scaling import finish_window, loss_scale, ready_scaler
from sweeper.training.schedule import count_of, rate
from sweeper.training.snapshot import Snapshot, State
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
from sweeper.training.tried import Tried
from sweeper.training.watch import Watch
from sweeper.training.window import Window


def train(  # noqa: PLR0913  # each is named once, by the one caller that puts a trial together
    model: nn.Module,
    windows: Iterable[Window],
    course: Course,
    *,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    clock: Callable[[], float],
    phases: Phases | None = None,
    ranks: Ranks = ALONE,
    keeping: Keeping | None = None,
    resume: Snapshot | None = None,
    scaler: GradScaler | None = None,
    probe: Probe = NO_PROBE,
) -> Outcome:
    """Trains the model in place and returns how it ended; neither loads nor saves final weights.

    Args:
        model: Its trainable tensors are those that require a gradient. Dropout draws from torch's
            random state, which the caller seeds.
        windows: Those after the last one of `resume`; all ranks read the same.
        course: What is to be done with them.
        emit: Takes every record, on rank 0; the other ranks are silent.
        interrupted: Asked after every window; true on any rank makes a checkpoint and ends the
            trial as preempted.
        clock: Monotonic seconds.
        phases: Goes on counting where the caller began; None: from here.
        ranks: The processes that share each window.
        keeping: Which files are left; None: none.
        resume: The state to go on from; None: from the start.
        scaler: Instead of the one that the precision asks for; tests have one on a CPU.
        probe: Looks on.

    Raises:
        ModelError: The model cannot be trained as asked, or a trainable tensor gets no gradient.
        RanksDisagree: A rank holds other weights than the rest.
        OSError: A checkpoint, evidence or the records' losses cannot be written.
    """
    emit = emit if ranks.rank == 0 else _say_nothing
    keeping = keeping or Keeping()
    objective = Objective(model, resolve_precision(course.options.precision, model))
    state = _fresh_state(model, objective, course, keeping, scaler)
    begin_together(state, resume, ranks, objective.device)
    motion = Motion(state.tensors)
    phases = phases or Phases(emit, clock)
    keeper = Keeper(keeping, state, ranks, phases=phases, emit=emit, clock=clock)
    examination = Examination(model, objective, course, keeper)
    end = End(course.planned, keeper)
    _make_ready(model, objective, course, emit)
    if stopped := examination.at(state.evaluation_due):
        return end.stopped(stopped)
    phases.begin(Phase.TRAINING)

    for window in windows:
        began, before = clock(), state.exposure
        batches = make_batches(window.examples, course.micro_batch, course.pad_token_id)
        tried = state.tried = Tried(window=window, batches=tuple(batches))
        if window.target_tokens > 0:
            tried.learning_rate = set_rate(state.optimizer, _rate(course, before, window))
            _compute_gradients(tried, objective, state, ranks, probe)
            _audit_gradients(state.tensors, before.updates, emit)
            _update(tried, state, clip_norm=course.options.clip_norm)
        state.exposure = before.after(window, tried.read, ran=tried.ran)
        emit(update := _record(tried, state.exposure, objective.device, clock() - began))
        if state.exposure.difference is not None:
            return end.mismatched()
        stopped = state.watch.after_window(update, moved=tried.ran and motion.happened())
        state.evaluation_due = examination.due(before, state.exposure)
        asked = ranks.any(flag=interrupted())
        if stopped is None and not asked:
            stopped = examination.at(state.evaluation_due)
        if stopped is not None:
            return end.stopped(stopped)
        if asked:
            return end.preempted()
        keeper.save_if_due()
    if state.exposure.mismatch(course.planned) is not None:
        return end.mismatched()
    stopped = examination.at(examination.grid.last)
    return end.completed() if stopped is None else end.stopped(stopped)


def _fresh_state(
    model: nn.Module,
    objective: Objective,
    course: Course,
    keeping: Keeping,
    scaler: GradScaler | None,
) -> State:
    tensors = trainable(model)
    check_dtype(tensors, objective.precision)
    return State(
        tensors=tensors,
        optimizer=make_optimizer(tensors, course.options.optimizer),
        scaler=ready_scaler(scaler, objective.precision, objective.device),
        watch=Watch(course.stop),
        best=keeping.best,
    )


def _compute_gradients(
    tried: Tried, objective: Objective, state: State, ranks: Ranks, probe: Probe
) -> None:
    """Computes the loss of a window and its gradients, over all ranks.

    Every micro-batch is divided by the targets of the whole window, so that its gradients add up to
    those of the window's loss, however it is cut. A rank without a micro-batch takes part all the
    same.
    """
    state.optimizer.zero_grad()  # not before: evidence shows the gradients of the last window
    tried.loss_scale = loss_scale(state.scaler)
    sums = torch.zeros(len(tried.batches), dtype=torch.float64, device=objective.device)
    for place in range(ranks.rank, len(tried.batches), ranks.count):
        loss_sum = objective(tried.batches[place])
        torch.autograd.backward(state.scaler.scale(loss_sum / tried.window.target_tokens))
        sums[place] = loss_sum.detach()
        probe.after_micro_batch(tried.window, place + 1, sums[place])
    # Each rank knows its own places; adding the others' zeros is exact.
    sum_gradients(state.tensors, ranks)
    state.scaler.unscale_(state.optimizer)
    tried.norm = gradient_norm(state.tensors)
    tried.take(ranks.sum(sums))


def _update(tried: Tried, state: State, *, clip_norm: float | None) -> None:
    """Makes the update, or says why it is not made; nothing advances then that should not.

    A finite norm proves no finite loss, nor the reverse, and a norm can overflow though no gradient
    does: both are looked at before a weight moves.
    """
    tensors, scaler = state.tensors, state.scaler
    loss, norm = tried.loss, tried.gradient_norm
    assert loss is not None
    assert norm is not None
    overflowed = scaler.is_enabled() and not math.isfinite(norm) and has_nonfinite_gradient(tensors)
    if not math.isfinite(loss):
        tried.skip = Skip.NONFINITE_LOSS
    elif overflowed:
        tried.skip = Skip.SCALER_OVERFLOW
    elif not math.isfinite(norm):
        tried.skip = Skip.NONFINITE_GRADIENT
    else:
        tried.skip = None
        tried.clipped = clip_gradients(tensors, tried.norm, clip_norm)
        scaler.step(state.optimizer)
    if not tried.ran:
        tried.tensors = anatomy(tensors)
    finish_window(scaler, ran=tried.ran, overflowed=overflowed)


def _rate(course: Course, before: Exposure, window: Window) -> float:
    peak, schedule = course.options.learning_rate, course.options.schedule
    assert peak is not None, "the plan gives every arm its rate"
    count = count_of(
        schedule,
        updates=before.updates + 1,
        target_tokens=before.target_tokens_applied + window.target_tokens,
    )
    return rate(schedule, peak=peak, count=count, planned=course.planned)


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


def _record(tried: Tried, exposure: Exposure, device: torch.device, seconds: float) -> Update:
    window = tried.window
    return Update(
        window=window.index,
        updates=exposure.updates,
        first_record=window.first_record,
        records=len(window.documents),
        record_digest=exposure.record_digest,
        target_tokens=tried.read.target_tokens,
        target_tokens_read=exposure.target_tokens_read,
        target_tokens_applied=exposure.target_tokens_applied,
        input_tokens=window.input_tokens,
        padding_tokens=tried.read.padding_tokens,
        learning_rate=tried.learning_rate,
        loss=tried.loss,
        gradient_norm=tried.gradient_norm,
        clipped=tried.clipped,
        ran=tried.ran,
        skip=tried.skip,
        loss_scale=tried.loss_scale,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes(device),
    )


def _make_ready(
    model: nn.Module, objective: Objective, course: Course, emit: Callable[[Record], None]
) -> None:
    if course.options.gradient_checkpointing:
        recompute_activations(model)
    model.train()
    if objective.split is None:
        message = (
            "logits are computed at every position, not at supervised ones only: this architecture"
            " is not just a body and a linear head"
        )
        emit(Notice(message=message))


def _say_nothing(_record: Record) -> None:
    """Takes the records of the ranks that do not report."""
