"""Follows one running attempt: its events into the database, Optuna and the view.

A database that cannot be written makes no trial fail: what could not be stored stays in the
attempt's `events.jsonl`, and is tried again until the attempt ends, and then once more from the
file. Where another host might take the trial over, a lease that could not be renewed in time lets
it be stopped, resumable: see `leases_missed`.
"""

from __future__ import annotations

import logging
import time

from sweeper.errors import EventsDamaged, StoreError
from sweeper.records import CheckpointMade, Evaluation, Event, Phase, PhaseBegun, Resumed, Update
from sweeper.store.claims import Claim
from sweeper.store.ingest import maker_of
from sweeper.sweep.observer import Progress
from sweeper.sweep.study_run import StudyRun
from sweeper.training.watch import VALIDATION
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launcher import Running
from sweeper.workers.liveness import uptime_seconds
from sweeper.workers.tail import EventTail

_log = logging.getLogger(__name__)

STORE_SECONDS = 1.0
"""Between two batches of events."""
PATIENCE_SECONDS = 10.0
"""Between two tries to store events while the database cannot be used."""


class AttemptWatch:
    """The view of one attempt while it runs; for one thread, which calls `look` now and then.

    Args:
        running: What is told that the lease was renewed, where somebody else could take it over.
    """

    def __init__(
        self, run: StudyRun, claim: Claim, folder: AttemptFolder, running: Running
    ) -> None:
        self._run = run
        self._claim = claim
        self._tail: EventTail | None = EventTail(folder.events)
        self._unstored: list[Event] = []
        self._pace = Pace(claim, budget_target_tokens=run.plan.budget_target_tokens)
        self._has_begun = claim.attempt == 1
        self._store_at = time.monotonic()
        self._renewed_at = uptime_seconds()
        self._renew_at = self._renewed_at + run.lease.renew_seconds
        self._held = running if run.others.may_exist else None
        self._hold()
        self.is_ours = True
        """Whether the cell is still this coordinator's; False once somebody took it over."""

    def look(self) -> None:
        """Takes in what the trial has reported since the last look."""
        fresh = self._fresh()
        self._run.turns.saw(fresh)
        self._run.places.saw(self._claim.slot, fresh)
        if fresh:
            self._unstored += fresh
            self._tell_beginning(fresh)
            self._run.observer.progress(self._pace.after(fresh))
        if uptime_seconds() >= self._renew_at:
            self._renew()  # first, for this process may have been frozen
        now = time.monotonic()
        if self._unstored and now >= self._store_at:
            self._store_at = now + (STORE_SECONDS if self._stored() else PATIENCE_SECONDS)

    def _fresh(self) -> tuple[Event, ...]:
        """Returns all new events; none any more once the file turned out to be damaged."""
        events: list[Event] = []
        try:
            while self._tail is not None and (more := self._tail.read()):
                events += more
        except EventsDamaged as error:
            self._tail = None
            self._run.observer.message(f"{self._claim.cell}: {error}")
        return tuple(events)

    def _tell_beginning(self, fresh: tuple[Event, ...]) -> None:
        """Says, once, where an attempt that is not the first of its cell begins."""
        for event in () if self._has_begun else fresh:
            if (told := beginning(self._claim.cell, event)) is not None:
                self._has_begun = True
                self._run.observer.message(told)
                break

    def _stored(self) -> bool:
        try:
            self._run.store.ingest(self._claim, self._unstored)
            if self.is_ours:
                self._report_evaluations()
        except StoreError as error:
            self._postpone("its events", error)
            return False
        self._unstored.clear()
        return True

    def _report_evaluations(self) -> None:
        for event in self._unstored:
            record = event.record
            if isinstance(record, Evaluation) and record.split == VALIDATION:
                self._run.optuna_study.report(
                    self._claim.cell, index=record.index, validation_loss=record.loss
                )

    @property
    def leases_missed(self) -> float:
        """How long the lease could not be renewed, counted in leases."""
        return (uptime_seconds() - self._renewed_at) / self._run.lease.seconds

    @property
    def told_overdue(self) -> str:
        """The sentence for a trial that is stopped because its lease could not be renewed."""
        return (
            f"{self._claim.cell} is stopped and goes on later: its lease could not be renewed for "
            f"{self._run.lease.seconds:g} s, and soon it may be taken over"
        )

    def _renew(self) -> None:
        lease, now = self._run.lease, uptime_seconds()
        try:
            self.is_ours = self._run.store.renew(self._claim, lease_seconds=lease.seconds)
        except StoreError as error:
            self._renew_at = now + lease.retry_seconds
            self._postpone("its lease", error)
            return
        self._renewed_at, self._renew_at = now, now + lease.renew_seconds
        if self.is_ours:
            self._hold()

    def _hold(self) -> None:
        """Lets the trial go on for a lease, also while this process is frozen or cut off."""
        if self._held is not None:
            self._held.renew(seconds=self._run.lease.seconds)

    def _postpone(self, what: str, error: StoreError) -> None:
        _log.warning("%s: %s", self._claim.cell, error)
        self._run.observer.message(
            f"{self._claim.cell} goes on; the database did not take {what}, which is tried again"
        )


def beginning(cell: str, event: Event) -> str | None:
    """Returns where a further attempt begins, as a sentence; None while the event does not say."""
    match event.record:
        case Resumed() as resumed:
            marks = "".join(f"; {difference}" for difference in resumed.differences)
            maker = maker_of(resumed.checkpoint)
            return f"{cell} goes on after window {resumed.after_window} of attempt {maker}{marks}"
        case Evaluation() | Update() | CheckpointMade():
            return f"{cell} starts over: there was no checkpoint to go on from"
    return None


class Pace:
    """How far an attempt has come and how long the rest will take, from its events alone."""

    def __init__(self, claim: Claim, *, budget_target_tokens: int) -> None:
        self._claim = claim
        self._budget = budget_target_tokens
        self._phase: Phase | None = None
        self._first: Event | None = None
        self._latest: Event | None = None

    def after(self, events: tuple[Event, ...]) -> Progress:
        """Returns the progress once these events, which follow the earlier ones, are counted."""
        for event in events:
            if isinstance(event.record, PhaseBegun):
                self._phase = event.record.phase
            elif isinstance(event.record, Update):
                self._first = self._first or event
                self._latest = event
        update = _update(self._latest)
        return Progress(
            slot=self._claim.slot,
            cell=self._claim.cell,
            phase=self._phase,
            target_tokens_read=update.target_tokens_read if update else 0,
            budget_target_tokens=self._budget,
            loss=update.loss if update else None,
            learning_rate=update.learning_rate if update else None,
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        first, latest = _update(self._first), _update(self._latest)
        if first is None or latest is None or self._first is None or self._latest is None:
            return None
        tokens = latest.target_tokens_read - first.target_tokens_read
        if tokens == 0:
            return None
        seconds = (self._latest.at - self._first.at).total_seconds()
        return (self._budget - latest.target_tokens_read) * seconds / tokens


def _update(event: Event | None) -> Update | None:
    if event is None:
        return None
    assert isinstance(event.record, Update)
    return event.record
