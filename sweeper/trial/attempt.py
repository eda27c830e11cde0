"""From a spec to an outcome: data, model, adapter, loop, files. Here a spec meets torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from sweeper.data.manifest import Manifest
from sweeper.data.prepared import PreparedSplit
from sweeper.records import Outcome, Phase, PhaseBegun, Reason, Record, Started
from sweeper.study.spec import TrialSpec
from sweeper.training.adapter import AdaptedModel, adapt, unfreeze
from sweeper.training.determinism import make_deterministic, seed_everything
from sweeper.training.environment import describe_environment
from sweeper.training.exposure import Planned
from sweeper.training.loop import train
from sweeper.training.model import load_model
from sweeper.training.precision import settle
from sweeper.training.saving import save
from sweeper.training.trainable import count, digest
from sweeper.training.window import Window
from sweeper.trial.completion import Witness, unsound
from sweeper.trial.device import given_device
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.windows import (
    TRAIN,
    difference,
    held_out_sets,
    stream_of,
    training_windows,
)

TOKENIZER = "tokenizer"
"""In the prepared folder; copied beside the weights."""


def carry_out(
    spec: TrialSpec,
    folder: AttemptFolder,
    *,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    clock: Callable[[], float],
) -> Outcome:
    """Carries out one attempt and returns how it ended; a completed one has saved its weights.

    Args:
        spec: What to do.
        folder: Where the weights go.
        emit: Takes every record as it comes.
        interrupted: Asked after loading and after every window; true ends it as preempted.
        clock: Monotonic seconds.

    Raises:
        UserError: Data, model or plan are not what the spec says.
        DeviceMissing: The slot's GPU is not there.
        OSError: The weights cannot be saved.
    """
    split = PreparedSplit.open(Path(spec.prepared), TRAIN)
    stream = stream_of(spec, split)
    if mismatch := difference(spec.planned, stream):
        return Outcome(reason=Reason.BUDGET_MISMATCH, detail=mismatch)
    device = given_device(os.environ)
    make_deterministic(deterministic=spec.deterministic, threads=spec.threads)
    spec = _settled(spec, device)
    adapted = _load(spec, device)
    emit(_started(spec, adapted))
    if interrupted():
        return Outcome(reason=Reason.PREEMPTED, detail="asked to end before the first window")
    witness = Witness(emit)
    windows = training_windows(split, stream)
    outcome = _train(
        spec, adapted, windows, emit=witness.emit, interrupted=interrupted, clock=clock
    )
    if outcome.reason is not Reason.BUDGET_REACHED:
        return outcome
    planned = spec.planned.target_tokens
    if trouble := unsound(witness, adapted.tensors, planned_target_tokens=planned):
        return trouble
    emit(PhaseBegun(phase=Phase.SAVING))
    emit(save(adapted.model, folder.adapter, tokenizer=Path(spec.prepared) / TOKENIZER))
    return outcome


def _settled(spec: TrialSpec, device: torch.device) -> TrialSpec:
    """Returns the spec with `auto` replaced by what it means on this device."""
    model, training = settle(spec.model, spec.training, tune=spec.tune, device=device)
    return spec.model_copy(update={"model": model, "training": training})


def _load(spec: TrialSpec, device: torch.device) -> AdaptedModel:
    model = load_model(spec.model, device=device)
    if spec.tune == "full":
        return unfreeze(model)
    assert spec.lora is not None, "tune: lora always comes with its settings"
    return adapt(model, spec.lora, seed=spec.seed)


def _started(spec: TrialSpec, adapted: AdaptedModel) -> Started:
    return Started(
        initial_digest=digest(adapted.tensors),
        trainable_parameters=count(adapted.tensors),
        adapted_modules=adapted.modules,
        environment=describe_environment(
            adapted.model, spec.training, micro_batch=spec.micro_batch
        ),
        configuration=spec.settings(),
    )


def _train(
    spec: TrialSpec,
    adapted: AdaptedModel,
    windows: Iterator[Window],
    *,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    clock: Callable[[], float],
) -> Outcome:
    prepared = Path(spec.prepared)
    held_out = held_out_sets(prepared, max_records=spec.evaluation.max_records)
    planned = Planned(
        windows=spec.planned.windows,
        target_tokens=spec.planned.target_tokens,
        last_window_target_tokens=spec.planned.last_window_target_tokens,
    )
    seed_everything(spec.seed)
    return train(
        adapted.model,
        windows=windows,
        held_out=held_out,
        options=spec.training,
        planned=planned,
        evaluation=spec.evaluation,
        stop=spec.stop,
        micro_batch=spec.micro_batch,
        pad_token_id=Manifest.read(prepared).pad_token_id,
        emit=emit,
        interrupted=interrupted,
        clock=clock,
    )
