"""The one thing that a replay changes, put into the specification of the attempt."""

from __future__ import annotations

import dataclasses

import torch
from torch.amp import GradScaler

from sweeper.errors import Fault, PlanError
from sweeper.study.spec import TrialSpec
from sweeper.training.snapshot import Snapshot
from sweeper.trial.attempt import settled
from sweeper.trial.replay.report import Changed
from sweeper.trial.replay.request import Change, OtherPrecision, OtherRate

RATE = "training.learning_rate"
PRECISION = "training.precision"
RECORD = "record"


def changed(
    spec: TrialSpec, change: Change | None, device: torch.device
) -> tuple[TrialSpec, Changed | None]:
    """Returns the specification for this device with the change in it, and what was changed.

    A record that is left out is a change of the windows, not of the specification.

    Raises:
        PlanError: Nothing would be changed.
        ModelError: The device or the model does not allow it.
    """
    before = settled(spec, device)
    match change:
        case OtherRate(value=rate):
            return _other_rate(before, rate)
        case OtherPrecision(value=precision):
            was = before.training.precision
            _refuse_no_change(PRECISION, was, precision)
            training = spec.training.model_copy(update={"precision": precision})
            after = settled(spec.model_copy(update={"training": training}), device)
            return after, Changed(key=PRECISION, was=was, now=precision)
    return before, None


def consequences(spec: TrialSpec, before: TrialSpec) -> tuple[str, ...]:
    """Returns what else is another than before, by a rule of its own, as sentences."""
    if spec.model.dtype == before.model.dtype:
        return ()
    sentence = (
        f"model.dtype is auto: the base weights are held in {spec.model.dtype}, as that precision"
        f" has it, not in {before.model.dtype}"
    )
    return (sentence,)


def fitting(snapshot: Snapshot, spec: TrialSpec, device: torch.device) -> Snapshot:
    """Returns the snapshot with a fresh loss scaling where its own is not that of the precision."""
    scaler = GradScaler(device.type, enabled=spec.training.precision == "float16")
    if bool(snapshot.facts["scaler"]) == scaler.is_enabled():
        return snapshot
    return dataclasses.replace(
        snapshot, facts={**snapshot.facts, "scaler": dict(scaler.state_dict())}
    )


def _other_rate(spec: TrialSpec, rate: float) -> tuple[TrialSpec, Changed]:
    was = spec.training.learning_rate
    assert was is not None, "the plan gives every arm its rate"
    _refuse_no_change(RATE, was, rate)
    training = spec.training.model_copy(update={"learning_rate": rate})
    return spec.model_copy(update={"training": training}), Changed(
        key=RATE, was=repr(was), now=repr(rate)
    )


def _refuse_no_change(key: str, was: object, now: object) -> None:
    if was == now:
        raise PlanError(
            Fault(
                what="this is what the trial had: nothing would be changed",
                where=key,
                got=str(now),
                hint="Give another value, or leave it out to replay the trial as it was",
            )
        )
