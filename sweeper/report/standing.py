"""Where a study stands: how many cells are where, what went wrong, and what goes on now."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sweeper.records import OutcomeKind
from sweeper.report.recorded import reading, run_folder
from sweeper.store.placement import SeedPlace, SlotRecord, why_waiting
from sweeper.store.planning import RecordedStudy
from sweeper.store.reading import CellRecord, Row, Start
from sweeper.store.status import CellStatus
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.surroundings import why_given_back
from sweeper.workers.liveness import is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a trial ended that did not complete."""

    trial: str
    outcome: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A waiting trial that no slot may take."""

    trial: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrial:
    """One running trial with its progress, and whose it is.

    Attributes:
        since: When its cell was claimed, UTC.
        loss: The last finite loss of a window, nats per target token.
        host: Where its coordinator runs, `pid` there.
        owner_is_alive: Whether that coordinator lives; None when it is another host's and nobody
            can tell.
        silent_since: When its lease expired, UTC, which an owner that lives renews long before;
            None while it holds.
        is_job: Whether it was handed to an engine, where it outlives its coordinator.
    """

    trial: str
    slot: str
    attempt: int
    since: str
    target_tokens_read: int
    loss: float | None
    host: str
    pid: int
    owner_is_alive: bool | None
    silent_since: str | None
    is_job: bool

    @property
    def is_left(self) -> bool:
        """Whether its owner is dead and it with it, which is not on record yet."""
        return self.owner_is_alive is False and not self.is_job

    @property
    def is_attended(self) -> bool:
        """Whether its owner is, or may be, at work."""
        if self.owner_is_alive is None:
            return self.silent_since is None
        return self.owner_is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A trial that went on from a checkpoint otherwise than it had begun, as its user asked.

    Attributes:
        differences: What had changed, as sentences.
    """

    trial: str
    attempt: int
    after_window: int
    differences: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An arm that was added because the best rate was at the edge.

    Attributes:
        value: Of the factor.
    """

    arm: str
    value: float
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A study's state as its database has it.

    Attributes:
        folder: The run folder.
        counts: Cells by outcome, or by status where they have none; only what occurs.
        endings: Of the trials that ended otherwise than completed, in plan order.
        running: The trials that the database has as running.
        resumable: The waiting trials whose latest attempt was lost, and how; they are resumed.
        waiting: The trials that no slot of those who run the study, or last ran it, may take, and
            those that an engine gave the wrong node last.
        resumed_elsewhere: The trials in whose history something changed on the way.
        extensions: The arms that were added, round by round.
        ended_why: Why the study ended; None while it may go on.
        changed_at: When the study, or a trial of it, last began or ended.
    """

    name: str
    fingerprint: str
    folder: str
    budget_target_tokens: int
    counts: Mapping[str, int]
    endings: Sequence[Ending]
    running: Sequence[RunningTrial]
    resumable: Sequence[Ending]
    waiting: Sequence[Waiting]
    resumed_elsewhere: Sequence[Mark]
    extensions: Sequence[Extension]
    ended_why: str | None
    changed_at: datetime

    @property
    def is_finished(self) -> bool:
        """Whether no cell is left to run."""
        return not any(status.value in self.counts for status in _OPEN)

    @property
    def left(self) -> Sequence[RunningTrial]:
        """The running trials that a dead coordinator left."""
        return [trial for trial in self.running if trial.is_left]

    @property
    def is_attended(self) -> bool:
        """Whether some coordinator is, or may be, at work."""
        return any(trial.is_attended for trial in self.running)


_OPEN = (CellStatus.WAITING, CellStatus.RUNNING)
_ORDER = (*OutcomeKind, CellStatus.RUNNING, CellStatus.WAITING, CellStatus.NOT_RUN)


def standing(study: str | Path) -> Standing:
    """Returns where the study stands.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    with reading(study) as store:
        begun = store.attempts()
        overdue = {
            (live.claim.cell, live.claim.attempt) for live in store.live_attempts() if live.overdue
        }
        trials = {str(row["trial"]): row for row in store.trials()}  # never behind its attempts
        recorded, cells, stretches = store.study(), store.cells(), store.stretches()
        places, slots = store.seed_places(), store.slots()
        arms = store.rounds.arms()
    attempts = [row for row in begun if row["ended_at"] is None]
    folder = run_folder(study)
    return Standing(
        name=recorded.name,
        fingerprint=recorded.fingerprint,
        folder=str(folder.path),
        budget_target_tokens=recorded.budget_target_tokens,
        counts=_counts(cells),
        endings=[_ending(cell) for cell in cells if _ended_otherwise(cell)],
        running=[
            _running(
                trials[str(row["trial"])],
                row,
                overdue=(row["trial"], row["attempt"]) in overdue,
                is_job=AttemptFolder(folder.path / str(row["folder"])).order.exists(),
            )
            for row in attempts
        ],
        resumable=_resumable(cells, begun),
        waiting=_waiting(cells, places, slots, begun),
        resumed_elsewhere=[_mark(each) for each in stretches if each.resume_differences],
        extensions=[
            Extension(arm=arm.name, value=arm.number, round=arm.round)
            for arm in arms
            if arm.round and arm.number is not None
        ],
        ended_why=recorded.ended_why,
        changed_at=_changed_at(recorded, begun),
    )


def _waiting(
    cells: Iterable[CellRecord],
    places: Mapping[int, SeedPlace],
    slots: Sequence[SlotRecord],
    attempts: Iterable[Row],
) -> list[Waiting]:
    latest = {str(row["trial"]): row for row in attempts}
    whys = {
        cell.cell: why_waiting(places.get(cell.seed), slots) or _given_back(latest.get(cell.cell))
        for cell in cells
        if cell.status is CellStatus.WAITING
    }
    return [Waiting(trial=trial, why=why) for trial, why in whys.items() if why is not None]


def _given_back(latest: Row | None) -> str | None:
    """Returns why a cell waits to which an engine gave the wrong node last."""
    if latest is None or latest["evidence"] is None:
        return None
    return why_given_back(_integer(latest["attempt"]), json.loads(str(latest["evidence"])))


def _changed_at(study: RecordedStudy, attempts: Iterable[Row]) -> datetime:
    told = (row[name] for row in attempts for name in ("claimed_at", "ended_at"))
    times = (datetime.fromisoformat(str(time)) for time in told if time is not None)
    return max(time for time in (study.created_at, study.ended_at, *times) if time is not None)


def _counts(cells: Iterable[CellRecord]) -> Mapping[str, int]:
    found = Counter(str(cell.outcome or cell.status) for cell in cells)
    return {str(name): found[str(name)] for name in _ORDER if str(name) in found}


def _ended_otherwise(cell: CellRecord) -> bool:
    return cell.outcome not in {None, OutcomeKind.COMPLETED}


def _ending(cell: CellRecord) -> Ending:
    return Ending(
        trial=cell.cell,
        outcome=str(cell.outcome),
        reason=str(cell.reason),
        detail=cell.detail or "",
    )


def _resumable(cells: Iterable[CellRecord], attempts: Iterable[Row]) -> list[Ending]:
    latest = {str(row["trial"]): row for row in attempts}
    waiting = (latest.get(cell.cell) for cell in cells if cell.status is CellStatus.WAITING)
    return [
        Ending(
            trial=str(row["trial"]),
            outcome=str(row["outcome"]),
            reason=str(row["reason"]),
            detail=str(row["detail"] or ""),
        )
        for row in waiting
        if row is not None and row["outcome"] == OutcomeKind.LOST
    ]


def _mark(stretch: Start) -> Mark:
    return Mark(
        trial=stretch.cell,
        attempt=stretch.attempt,
        after_window=stretch.resumed_after_window or 0,
        differences=stretch.resume_differences,
    )


def _running(trial: Row, attempt: Row, *, overdue: bool, is_job: bool) -> RunningTrial:
    host, pid = str(attempt["host"]), _integer(attempt["pid"])
    loss = trial["last_finite_loss"]
    return RunningTrial(
        trial=str(attempt["trial"]),
        slot=str(attempt["slot"]),
        attempt=_integer(attempt["attempt"]),
        since=str(attempt["claimed_at"]),
        target_tokens_read=_integer(trial["target_tokens_read"]),
        loss=loss if isinstance(loss, float) else None,
        host=host,
        pid=pid,
        owner_is_alive=is_alive(host, pid, str(attempt["process_started_at"])),
        silent_since=str(attempt["lease_expires_at"]) if overdue else None,
        is_job=is_job,
    )


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
