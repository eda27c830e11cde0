"""From a spec to an outcome: data, model, adapter, loop, files. Here a spec meets torch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import torch

from sweeper.data.manifest import Manifest
from sweeper.data.prepared import PreparedSplit
from sweeper.options import duration_seconds
from sweeper.records import Notice, Outcome, Phase, Reason, Record, Resumed, Started
from sweeper.study.spec import TrialSpec
from sweeper.training.adapter import AdaptedModel, adapt, unfreeze
from sweeper.training.audit import audit
from sweeper.training.best import Best
from sweeper.training.course import Course
from sweeper.training.determinism import make_deterministic, seed_everything
from sweeper.training.environment import describe_environment, device_name
from sweeper.training.exposure import Planned
from sweeper.training.keeper import Keeping
from sweeper.training.leak import refuse_leak
from sweeper.training.loop import train
from sweeper.training.loss import Objective
from sweeper.training.model import load_model
from sweeper.training.phases import Phases
from sweeper.training.precision import resolve_precision, settle
from sweeper.training.ranks import ALONE, Ranks
from sweeper.training.saving import save
from sweeper.training.trainable import digest
from sweeper.trial.completion import Witness, unsound
from sweeper.trial.device import fence, given_device
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.resuming import Resumption, find_resumption, owner_of
from sweeper.trial.surroundings import other_device, other_environment
from sweeper.trial.windows import (
    TRAIN,
    difference,
    held_out_sets,
    stream_of,
    training_windows,
)

TOKENIZER = "tokenizer"
"""In the prepared folder; copied beside the weights."""


def carry_out(  # noqa: PLR0913  # the attempt, and what its process brings
    spec: TrialSpec,
    folder: AttemptFolder,
    *,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    clock: Callable[[], float],
    phases: Phases,
    ranks: Ranks = ALONE,
) -> Outcome:
    """Carries out one attempt and returns how it ended; a completed one has saved its weights.

    Args:
        spec: What to do.
        folder: Where checkpoints and weights go.
        emit: Takes every record as it comes; on rank 0 alone.
        interrupted: Asked after loading and after every window; true ends it as preempted.
        clock: Monotonic seconds.
        phases: Loading has begun.
        ranks: The processes that share the trial; each calls this.

    Raises:
        UserError: Data, model or plan are not what the spec says, or there is a checkpoint that
            does not fit.
        DeviceMissing: The slot's GPU is not there.
        OSError: The weights or a checkpoint cannot be saved.
    """
    split = PreparedSplit.open(Path(spec.prepared), TRAIN)
    stream = stream_of(spec, split)
    device = given_device(os.environ, rank=ranks.rank, ranks=ranks.count)
    began_with = spec.seed_environment if ranks.rank == 0 else None  # rank 0 speaks for all
    unfit = _agreed(other_device(device_name(device), began_with), ranks)
    if mismatch := difference(spec.planned, stream):
        unfit = Outcome(reason=Reason.BUDGET_MISMATCH, detail=mismatch)
    if unfit is not None:
        return unfit
    fence(device, limit_bytes=spec.device_memory_bytes)
    make_deterministic(
        deterministic=spec.deterministic, threads=spec.threads, tf32=spec.training.tf32
    )
    resumption = find_resumption(spec, device_type=device.type)
    spec = settled(spec, device)
    adapted = load(spec, device)
    started = _started(spec, adapted, ranks)
    if elsewhere := _agreed(other_environment(started.environment, began_with), ranks):
        return elsewhere
    emit(started)
    resumed = _tell(resumption, emit)
    if ranks.any(flag=interrupted()):
        return Outcome(reason=Reason.PREEMPTED, detail="asked to end before the first window")
    keeping = dataclasses.replace(keeping_of(spec, folder), resumed=resumed)
    found = resumption.found
    witness = Witness(emit, target_tokens_read=0 if found is None else found.target_tokens_read)
    seed_everything(spec.seed, rank=ranks.rank)
    outcome = train(
        adapted.model,
        training_windows(split, stream, after_window=0 if found is None else found.window),
        course_of(spec),
        emit=witness.emit,
        interrupted=interrupted,
        clock=clock,
        phases=phases,
        ranks=ranks,
        keeping=keeping,
        resume=None if found is None else found.snapshot,
    )
    if outcome.reason is not Reason.BUDGET_REACHED or ranks.rank > 0:
        return outcome
    planned = spec.planned.target_tokens
    if trouble := unsound(witness, adapted.tensors, planned_target_tokens=planned):
        return trouble
    phases.begin(Phase.SAVING)
    _save(adapted, spec, folder, keeping.best, emit)
    return outcome


def _agreed(outcome: Outcome | None, ranks: Ranks) -> Outcome | None:
    """Returns the end on which all ranks agree when one of them has to end; None when none has."""
    if not ranks.any(flag=outcome is not None):
        return None
    return outcome or Outcome(reason=Reason.PREEMPTED, detail="not where its seed began")


def keeping_of(spec: TrialSpec, folder: AttemptFolder) -> Keeping:
    """Returns what the attempt leaves on disk while it runs."""
    every = spec.checkpoint.every
    return Keeping(
        folder=folder.path,
        every_windows=None if isinstance(every, str) else every.windows,
        every_seconds=duration_seconds(every) if isinstance(every, str) else None,
        keep=spec.checkpoint.keep,
        best=Best() if spec.keep_best else None,
        owner=owner_of(spec),
    )


def course_of(spec: TrialSpec) -> Course:
    """Returns what the spec says of the training itself."""
    prepared = Path(spec.prepared)
    return Course(
        options=spec.training,
        planned=Planned(
            windows=spec.planned.windows,
            records=spec.planned.records,
            input_tokens=spec.planned.input_tokens,
            target_tokens=spec.planned.target_tokens,
            last_window_target_tokens=spec.planned.last_window_target_tokens,
        ),
        held_out=held_out_sets(prepared, max_records=spec.evaluation.max_records),
        evaluation=spec.evaluation,
        stop=spec.stop,
        micro_batch=spec.micro_batch,
        pad_token_id=Manifest.read(prepared).pad_token_id,
    )


def _tell(resumption: Resumption, emit: Callable[[Record], None]) -> Resumed | None:
    for sentence in resumption.notices:
        emit(Notice(message=sentence))
    if resumption.found is None:
        return None
    resumed = Resumed(
        after_window=resumption.found.window,
        checkpoint=str(resumption.found.folder),
        sha256=resumption.found.sha256,
        differences=resumption.differences,
    )
    emit(resumed)
    return resumed


def _save(
    adapted: AdaptedModel,
    spec: TrialSpec,
    folder: AttemptFolder,
    best: Best | None,
    emit: Callable[[Record], None],
) -> None:
    tokenizer = Path(spec.prepared) / TOKENIZER
    emit(save(adapted.model, folder.adapter, tokenizer=tokenizer))
    if best is not None:
        with best.in_place(adapted.tensors):
            artifact = save(adapted.model, folder.best, tokenizer=tokenizer)
        emit(dataclasses.replace(artifact, kind="best"))


def settled(spec: TrialSpec, device: torch.device) -> TrialSpec:
    """Returns the spec with `auto` replaced by what it means on this device."""
    model, training = settle(spec.model, spec.training, tune=spec.tune, device=device)
    return spec.model_copy(update={"model": model, "training": training})


def load(spec: TrialSpec, device: torch.device) -> AdaptedModel:
    """Returns the model as it is trained; packed, it has shown that documents do not leak."""
    model = load_model(spec.model, device=device)
    if spec.tune == "full":
        adapted = unfreeze(model)
    else:
        assert spec.lora is not None, "tune: lora always comes with its settings"
        adapted = adapt(model, spec.lora, seed=spec.seed)
    if spec.packing is not None:
        precision = resolve_precision(spec.training.precision, adapted.model)
        refuse_leak(Objective(adapted.model, precision))
    return adapted


def _started(spec: TrialSpec, adapted: AdaptedModel, ranks: Ranks) -> Started:
    found = audit(adapted)
    return Started(
        initial_digest=digest(adapted.tensors),
        trainable_parameters=found.trainable_parameters,
        adapted_modules=adapted.modules,
        scaling=found.scaling,
        matched={setting: " ".join(names) for setting, names in found.matched.items()},
        environment=describe_environment(
            adapted.model, spec.training, micro_batch=spec.micro_batch, ranks=ranks.count
        ),
        configuration=spec.settings(),
    )
