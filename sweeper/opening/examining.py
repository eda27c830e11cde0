"""The evaluation itself: first whether the weights are those that were selected, then the test.

Every frozen checkpoint scores the validation split once more, and has to give the loss on record;
only when all of them do are the test records read. Runs in the child process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from sweeper.data.manifest import Manifest
from sweeper.errors import Fault, ModelError, SweeperError, UserError
from sweeper.opening.folder import EvaluationFolder
from sweeper.opening.request import (
    CheckpointRequest,
    FoundLoss,
    FoundOverlap,
    OpeningReport,
    OpeningRequest,
)
from sweeper.opening.sealed import TEST, find_overlaps, read_sealed, tokenise_sealed
from sweeper.study.spec import TrialSpec
from sweeper.training.adapter import AdaptedModel, unfreeze
from sweeper.training.determinism import make_deterministic
from sweeper.training.environment import describe_environment
from sweeper.training.evaluation import held_out_loss, record_losses
from sweeper.training.folder_digest import folder_digest
from sweeper.training.loss import Objective
from sweeper.training.model import load_model
from sweeper.training.per_record import write_per_record
from sweeper.training.precision import resolve_precision
from sweeper.training.saved import load_saved_adapter
from sweeper.training.trainable import digest
from sweeper.training.window import HeldOutSet
from sweeper.trial.attempt import load, settled
from sweeper.trial.device import given_device
from sweeper.trial.windows import held_out_set, held_out_sets

_FLOAT32_TOLERANCE = 1e-6
_SHORT_TOLERANCE = 1e-3
"""Nats per target token; the gates between trials hold losses to the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """A checkpoint that is ready to score records, as its trial scored them."""

    spec: TrialSpec
    adapted: AdaptedModel
    objective: Objective

    @property
    def tolerance(self) -> float:
        is_float32 = self.objective.precision == "float32"
        return _FLOAT32_TOLERANCE if is_float32 else _SHORT_TOLERANCE


def examine(
    request: OpeningRequest, folder: EvaluationFolder, *, tell: Callable[[str], None]
) -> OpeningReport:
    """Evaluates the frozen checkpoints on the test split; writes tokens and losses of records.

    Args:
        tell: Takes a line of progress now and then.

    Raises:
        UserError: Weights, environment, model or records are not what they were.
        SweeperError: The records could not be used, for a reason that is better not repeated.
        DeviceMissing: The slot's GPU is not there.
        OSError: Files cannot be written.
    """
    device = given_device(os.environ)
    manifest = Manifest.read(Path(request.prepared))
    validation: list[float] = []
    for checkpoint, loss in _validated(request, device, manifest):
        tell(f"{checkpoint.name}: validation loss {loss:.6g}, as on record")
        validation.append(loss)
    test, overlaps, records_digest, records_read = _test_split(request, manifest, folder)
    tell(f"test split: {len(test.examples)} records scored of {records_read}")
    found: list[FoundLoss] = []
    environments: list[dict[str, str]] = []
    for checkpoint, loss in zip(request.checkpoints, validation, strict=True):
        loaded = _load(request, checkpoint, device)
        found.append(_score(loaded, checkpoint, test, manifest, folder, validation_loss=loss))
        environments.append(_environment(loaded))
        tell(f"{checkpoint.name}: scored")
    return OpeningReport(
        records_digest=records_digest,
        records_read=records_read,
        records=len(test.examples),
        target_tokens=sum(example.target_tokens for example in test.examples),
        set_digest=test.set_digest,
        overlaps=overlaps,
        losses=tuple(found),
        environment=together(environments),
    )


def _validated(
    request: OpeningRequest, device: torch.device, manifest: Manifest
) -> Iterator[tuple[CheckpointRequest, float]]:
    """Yields every checkpoint with its validation loss.

    Raises:
        ModelError: At the end: some are not those on record; all of them are named.
    """
    faults: list[Fault] = []
    for checkpoint in request.checkpoints:
        loaded = _load(request, checkpoint, device)
        spec = loaded.spec
        sets = held_out_sets(Path(request.prepared), max_records=spec.evaluation.max_records)
        loss, _ = held_out_loss(
            loaded.adapted.model,
            loaded.objective,
            sets[0],
            micro_batch=spec.micro_batch,
            pad_token_id=manifest.pad_token_id,
        )
        if abs(loss - checkpoint.validation_loss) <= loaded.tolerance:
            yield checkpoint, loss
        else:  # a loss that is not finite comes here too
            faults.append(_another_loss(checkpoint, loss, loaded.tolerance))
    if faults:
        raise ModelError(*faults)


def _another_loss(checkpoint: CheckpointRequest, loss: float, tolerance: float) -> Fault:
    return Fault(
        what="the validation loss is not the one on record: the weights or the environment are not "
        "what was selected",
        where=checkpoint.name,
        got=repr(loss),
        expected=f"{checkpoint.validation_loss!r}, to {tolerance:g}",
        hint="No test record was read. Open it where the trials ran, with the same versions",
    )


def _load(request: OpeningRequest, checkpoint: CheckpointRequest, device: torch.device) -> _Loaded:
    """Returns the checkpoint's model, computing as in its trial.

    Raises:
        ModelError: The weights are not those that were frozen.
    """
    told = TrialSpec.read(Path(checkpoint.spec))
    spec = told.model_copy(update={"prepared": request.prepared, "model": request.model})
    make_deterministic(
        deterministic=spec.deterministic, threads=spec.threads, tf32=spec.training.tf32
    )
    spec = settled(spec, device)
    adapted = _weights(spec, checkpoint, device)
    precision = resolve_precision(spec.training.precision, adapted.model)
    return _Loaded(spec=spec, adapted=adapted, objective=Objective(adapted.model, precision))


def _weights(spec: TrialSpec, checkpoint: CheckpointRequest, device: torch.device) -> AdaptedModel:
    if checkpoint.weights is None:
        untrained = load(spec, device)
        _refuse_other(digest(untrained.tensors), checkpoint.initial_digest, checkpoint)
        return untrained
    weights = Path(checkpoint.weights)
    _refuse_other(folder_digest(weights), checkpoint.weights_sha256, checkpoint)
    if spec.tune == "full":
        saved = spec.model.model_copy(update={"path": str(weights)})
        return unfreeze(load_model(saved, device=device))
    adapted = load(spec, device)
    load_saved_adapter(adapted, weights)
    return adapted


def _refuse_other(found: str, frozen: str | None, checkpoint: CheckpointRequest) -> None:
    if found != frozen:
        what = "not the weights that were frozen"
        where = checkpoint.weights or checkpoint.name
        raise ModelError(Fault(what=what, where=where, got=found, expected=frozen))


def _test_split(
    request: OpeningRequest, manifest: Manifest, folder: EvaluationFolder
) -> tuple[HeldOutSet, tuple[FoundOverlap, ...], str, int]:
    """Returns the set to score, its overlaps, the digest of what was read and its count.

    Raises:
        UserError: The records are not those that were sealed, or cannot be used.
        SweeperError: Anything else: what a library says of a record is not repeated.
    """
    try:
        records = read_sealed(request.records, manifest)
        prepared = Path(request.prepared)
        overlaps = find_overlaps(records, request.records, manifest, prepared)
        split = tokenise_sealed(
            records, request.tokenizer, request.records, manifest, folder.tokens
        )
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  # its message may hold what a record says
        what = f"the test records cannot be used: {type(error).__name__}"
        raise SweeperError(Fault(what=what)) from None
    assert manifest.test is not None
    scored = held_out_set(TEST, split, max_records=None)
    return scored, overlaps, manifest.test.records_digest, len(records.records)


def _score(  # what is scored, by what, and where that goes
    loaded: _Loaded,
    checkpoint: CheckpointRequest,
    test: HeldOutSet,
    manifest: Manifest,
    folder: EvaluationFolder,
    *,
    validation_loss: float,
) -> FoundLoss:
    sums = record_losses(
        loaded.adapted.model,
        loaded.objective,
        test,
        micro_batch=loaded.spec.micro_batch,
        pad_token_id=manifest.pad_token_id,
    )
    loss = math.fsum(sums) / sum(example.target_tokens for example in test.examples)
    file = folder.losses / f"{checkpoint.role}-{checkpoint.name}.parquet"
    return FoundLoss(
        validation_loss=validation_loss,
        test_loss=loss if math.isfinite(loss) else None,
        per_record_path=file.relative_to(folder.path).as_posix(),
        per_record_sha256=write_per_record(file, test, sums),
    )


def together(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the fields of all checkpoints; one in which they differ holds every value once.

    Arms of a precision study do: each is evaluated in its own.
    """
    names = sorted({name for each in environments for name in each})
    return {
        name: " and ".join(dict.fromkeys(each[name] for each in environments if name in each))
        for name in names
    }


def _environment(loaded: _Loaded) -> dict[str, str]:
    spec = loaded.spec
    return dict(
        describe_environment(loaded.adapted.model, spec.training, micro_batch=spec.micro_batch)
    )
