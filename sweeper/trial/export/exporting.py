"""Merges an adapter into its base, and evaluates the exported files as others will load them."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel

from sweeper.data.manifest import Manifest
from sweeper.errors import Fault, ModelError
from sweeper.study.spec import TrialSpec
from sweeper.training.determinism import make_deterministic
from sweeper.training.evaluation import held_out_loss
from sweeper.training.loss import Objective
from sweeper.training.model import load_model
from sweeper.training.precision import resolve_precision
from sweeper.training.saved import load_saved_adapter
from sweeper.trial.attempt import load, settled
from sweeper.trial.device import given_device
from sweeper.trial.export.request import ExportAnswer, ExportRequest
from sweeper.trial.windows import held_out_sets

_FLOAT32, _SHORT = 1e-6, 1e-3
_MERGED_FLOAT32, _MERGED_SHORT = 1e-5, 1e-2
"""Nats per target token. Merged, every weight is rounded once more, to the base's dtype."""


def complete(request: ExportRequest, *, tell: Callable[[str], None]) -> ExportAnswer:
    """Writes the merged model where one is asked for, and evaluates the export.

    Args:
        tell: Takes a line of progress now and then.

    Raises:
        ModelError: The weights cannot be merged, or the export has another loss than is on record.
        DeviceMissing: The slot's GPU is not there.
        OSError: The model cannot be written.
    """
    device = given_device(os.environ)
    told = TrialSpec.read(Path(request.spec))
    spec = settled(told.model_copy(update={"prepared": request.prepared}), device)
    make_deterministic(
        deterministic=spec.deterministic, threads=spec.threads, tf32=spec.training.tf32
    )
    if request.merge:
        _write_merged(spec, request, device)
        tell("merged into the base model")
    if not request.verify:
        return ExportAnswer(validation_loss=None, tolerance=None)
    loss, tolerance = _loss(spec, request, device), _tolerance(spec, request)
    if not abs(loss - request.validation_loss) <= tolerance:  # nor where it is not finite
        raise ModelError(_another_loss(request, loss, tolerance))
    tell(f"validation loss {loss:.6g}, as on record")
    return ExportAnswer(validation_loss=loss, tolerance=tolerance)


def _write_merged(spec: TrialSpec, request: ExportRequest, device: torch.device) -> None:
    """Writes the model that adapter and base are together, in the base's dtype.

    Raises:
        ModelError: The adapter cannot be merged.
    """
    adapted = load(spec, device)
    load_saved_adapter(adapted, Path(request.weights))
    assert isinstance(adapted.model, PeftModel)
    try:
        model = merged(adapted.model, dtype=spec.model.dtype)
    except (ValueError, NotImplementedError) as error:
        raise ModelError(
            Fault(
                what=f"the adapter cannot be merged: {' '.join(str(error).split())}",
                where=request.weights,
                hint="Export it without --merged",
            )
        ) from error
    model.save_pretrained(request.folder)


def merged(model: PeftModel, *, dtype: str) -> PreTrainedModel:
    """Returns adapter and base as one model, whose weights are held in `dtype`; changes `model`.

    Raises:
        ValueError: peft cannot merge the adapter, or the result is not finite.
        NotImplementedError: peft cannot merge adapters of this kind.
    """
    whole = model.merge_and_unload(safe_merge=True)
    assert isinstance(whole, PreTrainedModel)
    whole.to(torch.bfloat16 if dtype == "bfloat16" else torch.float32)  # type: ignore[arg-type]  # the decorator hides the signature
    return whole


def _loss(spec: TrialSpec, request: ExportRequest, device: torch.device) -> float:
    model = _loaded(spec, request, device)
    prepared = Path(request.prepared)
    validation, *_ = held_out_sets(prepared, max_records=spec.evaluation.max_records)
    loss, _ = held_out_loss(
        model,
        Objective(model, resolve_precision(spec.training.precision, model)),
        validation,
        micro_batch=spec.micro_batch,
        pad_token_id=Manifest.read(prepared).pad_token_id,
    )
    return loss


def _loaded(spec: TrialSpec, request: ExportRequest, device: torch.device) -> nn.Module:
    """Returns the exported model, loaded as somebody else loads it."""
    if request.is_adapter and not request.merge:
        with _quiet_peft():
            adapted: nn.Module = PeftModel.from_pretrained(
                load_model(spec.model, device=device), request.folder
            )
        return adapted.eval()
    own = spec.model.model_copy(update={"path": request.folder})
    return load_model(own, device=device)


def _tolerance(spec: TrialSpec, request: ExportRequest) -> float:
    is_float32 = spec.model.dtype == spec.training.precision == "float32"
    if request.merge:
        return _MERGED_FLOAT32 if is_float32 else _MERGED_SHORT
    return _FLOAT32 if is_float32 else _SHORT


@contextlib.contextmanager
def _quiet_peft() -> Iterator[None]:
    """Keeps back what peft says of its own settings: nothing that a user could mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _another_loss(request: ExportRequest, loss: float, tolerance: float) -> Fault:
    return Fault(
        what="the exported files do not give the validation loss on record; nothing was exported",
        where="merged" if request.merge else "exported",
        got=repr(loss),
        expected=f"{request.validation_loss!r}, to {tolerance:g}",
        hint="Export where the trials ran, with the same versions; --no-verify leaves the "
        "evaluation out",
    )
