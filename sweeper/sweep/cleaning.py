"""Room on the disk: checkpoints that nothing goes on from are dropped, everything else stays.

A checkpoint is of use while its trial may go on, and as the one that evidence of an anomaly names.
Weights, evidence and all that was reported are in other places, which are not touched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.records import OutcomeKind
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.sweep.founding import opened
from sweeper.sweep.interventions import attended
from sweeper.sweep.observer import Observer
from sweeper.trial.folder import AttemptFolder

_ANOMALY = "anomaly.json"
_FOR_GOOD = frozenset({OutcomeKind.COMPLETED, OutcomeKind.STOPPED, OutcomeKind.FAILED})
"""A trial that ended so never goes on from a checkpoint; the others may until the study closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superfluous:
    """A checkpoint of a trial that does not go on."""

    trial: str
    path: Path
    size_bytes: int


def superfluous_checkpoints(study_file: StudyFile, folder: StudyFolder) -> tuple[Superfluous, ...]:
    """Returns what `clean` would drop now, in plan order; nothing is changed.

    Raises:
        StoreError: The database cannot be used.
    """
    with opened(study_file, folder) as store:
        return () if store is None else tuple(_superfluous(store, folder))


def clean(
    study_file: StudyFile, folder: StudyFolder, *, observer: Observer
) -> tuple[Superfluous, ...]:
    """Drops these checkpoints, on record, and returns them.

    Raises:
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
        RunFolderError: A checkpoint cannot be deleted; those before it are.
    """
    with attended(study_file, folder, observer) as store:
        found = tuple(_superfluous(store, folder))
        if found:
            size = sum(each.size_bytes for each in found)
            store.record_cleaning(checkpoints=len(found), size_bytes=size)
        for each in found:
            _delete(each.path)
    return found


def _superfluous(store: StudyStore, folder: StudyFolder) -> Iterator[Superfluous]:
    is_closed = store.is_closed()
    for cell in store.cells():
        if _never_goes_on(cell, is_closed=is_closed):
            numbers = range(1, cell.attempts + 1)
            attempts = [folder.attempt(arm=cell.arm, seed=cell.seed, number=n) for n in numbers]
            kept = {_place(path) for attempt in attempts for path in _named_by_evidence(attempt)}
            for path in (path for attempt in attempts for path in _checkpoints(attempt)):
                if _place(path) not in kept:
                    yield Superfluous(trial=cell.cell, path=path, size_bytes=_size_bytes(path))


def _never_goes_on(cell: CellRecord, *, is_closed: bool) -> bool:
    return cell.status is CellStatus.ENDED and (is_closed or cell.outcome in _FOR_GOOD)


def _checkpoints(attempt: Path) -> list[Path]:
    """Returns the attempt's checkpoints, partial ones included; links are somebody else's."""
    place = AttemptFolder(attempt).checkpoints
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.is_symlink())


def _named_by_evidence(attempt: Path) -> list[Path]:
    """Returns the checkpoint that the attempt's evidence names; all, if it cannot be read."""
    anomaly = AttemptFolder(attempt).evidence / _ANOMALY
    if not anomaly.exists():
        return []
    try:
        named = json.loads(anomaly.read_bytes())["checkpoint"]
        return [] if named is None else [attempt / named["path"]]
    except (OSError, ValueError, KeyError, TypeError):
        return _checkpoints(attempt)


def _place(checkpoint: Path) -> tuple[str, ...]:
    """Returns attempt and window of a trial's checkpoint, also where the run folder was moved."""
    return checkpoint.parts[-3:]


def _size_bytes(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="a checkpoint cannot be deleted",
                where=str(path),
                got=error.strerror,
                hint="Make it writable; the same command does the rest",
            )
        ) from error
