"""The frozen checkpoints as the child is to load them, each shown to be the one that was frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, StudyConflict
from sweeper.opening.request import CheckpointRequest
from sweeper.selection.evidence import BASELINE
from sweeper.selection.frozen import Frozen, FrozenCheckpoint, Role, untrained_digest
from sweeper.store.reading import Row
from sweeper.store.store import StudyStore
from sweeper.training.folder_digest import folder_digest
from sweeper.trial.folder import AttemptFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """What is on record of trials and attempts, by trial."""

    folder: Path
    trials: Mapping[str, Row]
    started: Mapping[str, Row]
    protocol: Mapping[str, object]


def frozen_checkpoints(
    frozen: Frozen, store: StudyStore, folder: Path
) -> tuple[CheckpointRequest, ...]:
    """Returns every checkpoint of the frozen list, in its order.

    Args:
        folder: The run folder.

    Raises:
        StudyConflict: Weights are gone or not those that were frozen; all are named.
    """
    started = {str(row["trial"]): row for row in store.attempts() if row["initial_digest"]}
    trials = {str(row["trial"]): row for row in store.trials()}
    records = _Records(
        folder=folder, trials=trials, started=started, protocol=store.study().protocol
    )
    faults = tuple(_changed(frozen.checkpoints, records))
    if faults:
        raise StudyConflict(*faults)
    return tuple(_request(checkpoint, records, frozen) for checkpoint in frozen.checkpoints)


def _changed(checkpoints: Sequence[FrozenCheckpoint], records: _Records) -> Iterator[Fault]:
    for checkpoint in checkpoints:
        if checkpoint.path is None:
            continue  # the child loads the base model, and holds it against the trial's start
        weights = records.folder / checkpoint.path
        if not weights.is_dir():
            yield Fault(
                what="weights that were frozen are gone",
                where=str(weights),
                hint="Put them back: the test split is opened for all of them at once",
            )
            continue
        found = folder_digest(weights)
        if found != checkpoint.sha256:
            yield Fault(
                what="not the weights that were frozen",
                where=str(weights),
                got=found,
                expected=checkpoint.sha256,
                hint="Put them back as they were",
            )


def _request(checkpoint: FrozenCheckpoint, records: _Records, frozen: Frozen) -> CheckpointRequest:
    if checkpoint.path is None:
        return _untrained(checkpoint, records, frozen)
    trial = f"{checkpoint.arm}/{checkpoint.seed}"
    weights = records.folder / checkpoint.path
    return CheckpointRequest(
        role=checkpoint.role,
        arm=checkpoint.arm,
        seed=checkpoint.seed,
        weights=str(weights),
        weights_sha256=checkpoint.sha256,
        spec=str(AttemptFolder(weights.parent).spec),
        initial_digest=str(records.started[trial]["initial_digest"]),
        validation_loss=_loss(records.trials[trial], "validation_loss"),
    )


def _untrained(
    checkpoint: FrozenCheckpoint, records: _Records, frozen: Frozen
) -> CheckpointRequest:
    """Returns the model that every trial of the seed began from, as one of them was told.

    Raises:
        StudyConflict: What the trials are on record to have begun from is not what was frozen.
    """
    assert checkpoint.role is Role.INITIAL
    trials = [f"{arm}/{checkpoint.seed}" for arm in (BASELINE, frozen.arm)]
    trial = next(each for each in trials if _has_begun(each, records))
    initial_digest = str(records.started[trial]["initial_digest"])
    found = untrained_digest(records.protocol, initial_digest)
    if found != checkpoint.sha256:
        what = "not the untrained model that was frozen"
        raise StudyConflict(Fault(what=what, where=trial, got=found, expected=checkpoint.sha256))
    attempt = AttemptFolder(records.folder / str(records.started[trial]["folder"]))
    return CheckpointRequest(
        role=checkpoint.role,
        arm=None,
        seed=checkpoint.seed,
        weights=None,
        weights_sha256=None,
        spec=str(attempt.spec),
        initial_digest=initial_digest,
        validation_loss=_loss(records.trials[trial], "initial_loss"),
    )


def _has_begun(trial: str, records: _Records) -> bool:
    row = records.trials.get(trial)
    return row is not None and row["initial_loss"] is not None and trial in records.started


def _loss(row: Row, column: str) -> float:
    loss = row[column]
    assert isinstance(loss, float), "a frozen trial has its losses on record"
    return loss
