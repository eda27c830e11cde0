"""What is on record of an attempt, with the attempts that it went on from. Torch-free.

An attempt that went on from a checkpoint took over what had been read up to there; what the earlier
attempt did afterwards does not belong to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from sweeper.errors import Fault, RunFolderError
from sweeper.records import (
    Evaluation,
    Outcome,
    OutcomeKind,
    Reason,
    Record,
    Resumed,
    Started,
    Stop,
    Update,
    decode,
)
from sweeper.study.spec import TrialSpec
from sweeper.trial.folder import AttemptFolder

EvaluationKey = tuple[str, int]
"""Split and index on the grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """What ended an attempt, if it was its own doing: a stop condition, or an error."""

    reason: Reason
    window: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """The history of one attempt.

    Attributes:
        folders: The attempt's, then those of the attempts before it.
        spec: As the attempt was told.
        started: What it started from; None: it did not get so far.
        updates: Its windows by their index.
        evaluations: By split and index.
        anomaly: None: it completed, or something from outside ended it.
    """

    folders: tuple[AttemptFolder, ...]
    spec: TrialSpec
    started: Started | None
    updates: Mapping[int, Update] = field(default_factory=dict)
    evaluations: Mapping[EvaluationKey, Evaluation] = field(default_factory=dict)
    anomaly: Anomaly | None = None

    @property
    def last_window(self) -> int:
        """The last window on record; 0: none is."""
        return max(self.updates, default=0)


def read_run(folder: AttemptFolder) -> RecordedRun:
    """Returns what is on record in the folder.

    Raises:
        RunFolderError: There is no attempt in it, or its events are damaged.
    """
    spec, records = _spec(folder), list(_records(folder))
    resumed = next((r for r in records if isinstance(r, Resumed)), None)
    before = None if resumed is None else _until(_maker(resumed, folder), resumed.after_window)
    updates = {} if before is None else dict(before.updates)
    evaluations = {} if before is None else dict(before.evaluations)
    updates |= {r.window: r for r in records if isinstance(r, Update)}
    evaluations |= {(r.split, r.index): r for r in records if isinstance(r, Evaluation)}
    return RecordedRun(
        folders=(folder, *(() if before is None else before.folders)),
        spec=spec,
        started=next((r for r in records if isinstance(r, Started)), None),
        updates=updates,
        evaluations=evaluations,
        anomaly=_anomaly(records, max(updates, default=0)),
    )


def _maker(resumed: Resumed, folder: AttemptFolder) -> AttemptFolder:
    """Returns the attempt that made a checkpoint, which is in `checkpoints/` of its folder.

    A run folder may have been moved since; attempts of a trial stay beside each other.
    """
    maker = Path(resumed.checkpoint).parent.parent
    return AttemptFolder(maker if maker.is_dir() else folder.path.parent / maker.name)


def _until(folder: AttemptFolder, window: int) -> RecordedRun:
    run = read_run(folder)
    return dataclasses.replace(
        run,
        updates={index: update for index, update in run.updates.items() if index <= window},
        evaluations={key: e for key, e in run.evaluations.items() if e.window <= window},
    )


def _anomaly(records: list[Record], last_window: int) -> Anomaly | None:
    for record in records:
        if isinstance(record, Stop):
            return Anomaly(reason=record.reason, window=record.window, detail=record.detail)
        if isinstance(record, Outcome) and is_own_doing(record):
            return Anomaly(reason=record.reason, window=last_window, detail=record.detail)
    return None


def is_own_doing(outcome: Outcome) -> bool:
    """Tells whether what the trial does ended it, rather than the machine or a limit."""
    return outcome.kind in {OutcomeKind.STOPPED, OutcomeKind.FAILED}


def _spec(folder: AttemptFolder) -> TrialSpec:
    try:
        return TrialSpec.read(folder.spec)
    except OSError as error:
        raise _unreadable(folder.spec, error.strerror or str(error)) from error
    except ValidationError as error:
        got = f"{error.error_count()} entries are not what this version writes"
        raise _unreadable(folder.spec, got) from error


def _records(folder: AttemptFolder) -> Iterator[Record]:
    """Yields the records; a last line without its end was cut by a kill and does not count."""
    try:
        *lines, _cut = folder.events.read_text(encoding="utf-8").split("\n")
        for line in lines:
            yield decode(line).record
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _unreadable(folder.events, str(error)) from error


def _unreadable(file: Path, got: str) -> RunFolderError:
    return RunFolderError(
        Fault(
            what="the record of the attempt cannot be read",
            where=str(file),
            got=got,
            hint="Name another attempt with --attempt; `sweeper show` lists them",
        )
    )
