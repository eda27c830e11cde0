"""The study's record: who may run which cell, what every attempt reported, how it ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType, TracebackType
from typing import Self

from sweeper.errors import StoreError
from sweeper.records import Event, Outcome
from sweeper.selection.chain import Link
from sweeper.selection.frozen import Frozen
from sweeper.store import (
    chain,
    claims,
    endings,
    ingest,
    interventions,
    metrics,
    placement,
    planning,
    reading,
    recovery,
    restoring,
    views,
)
from sweeper.store.claims import LEASE_SECONDS, Claim, Owner, Process
from sweeper.store.database import Database
from sweeper.store.endings import Cost
from sweeper.store.engine import drop_place
from sweeper.store.interventions import Intervention
from sweeper.store.metrics import Attachment, Place, Source
from sweeper.store.placement import SeedPlace, SlotRecord
from sweeper.store.planning import PlannedCell, RecordedStudy
from sweeper.store.reading import AttemptEvent, CellRecord, LateResult, Repeated, Row, Start
from sweeper.store.record_chain import RecordChain
from sweeper.store.recovery import LiveAttempt
from sweeper.store.restoring import Journal, RestoredRecord
from sweeper.store.rounds import RecordedRounds
from sweeper.store.schema import check_schema, create_schema


class StudyStore:
    """One database with one study, its cells and everything their attempts reported.

    Every method is one transaction, or one read of a consistent snapshot; after an error
    nothing of it is there, so a caller may simply try again. Methods may be called from several
    threads, and several processes may each open a store on the same database. The store owns
    its connections: use it as a context manager, or call `close`.

    Raises:
        StoreError: From every method: the database cannot be read or written, also not after
            waiting for other writers. A trial is not to be ended because of it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unanswered: dict[tuple[Owner, str], str] = {}
        self.chain = RecordChain(database)
        self.rounds = RecordedRounds(database)
        self.restored = RestoredRecord(database)

    @classmethod
    def create(cls, url: str) -> Self:
        """Opens the database for writing, creating what is missing; safe to race.

        Raises:
            StoreError: It has a schema of another version, or the URL cannot be used.
        """
        return cls(Database.for_writing(url, create_schema))

    @classmethod
    def open(cls, url: str) -> Self:
        """Opens a database that `create` has made, for writing.

        Raises:
            StoreError: It holds no schema, or one of another version.
        """
        cls.read(url).close()
        return cls(Database.for_writing(url, check_schema))

    @classmethod
    def read(cls, url: str) -> Self:
        """Opens the database for reading only; no writer ever waits for it.

        Raises:
            StoreError: There is no database, it holds no schema, or one of another version.
        """
        return cls(Database.for_reading(url, check_schema))

    def delete(self) -> None:
        """Deletes everything of the study from a database server, and closes the store.

        An SQLite file stays: it is the caller's to delete.
        """
        self._database.write(drop_place)
        self.close()

    def close(self) -> None:
        """Gives the connections back."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def turn(self) -> AbstractContextManager[None]:
        """Keeps other coordinators on a server out of such blocks, one after another.

        For what takes several transactions, or Optuna's own. Blocks do not nest.

        Raises:
            StoreUnavailable: On entering: somebody else has the turn for too long.
        """
        return self._database.turn()

    # The study and its cells.

    def record_study(
        self, study: RecordedStudy, *, data: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Records the study and creates its views; the same study again changes nothing.

        Args:
            data: What was prepared for it, for the chain; see `study.data_facts`.

        Raises:
            StudyConflict: The database holds a study with another fingerprint.
        """
        self._database.write(lambda c: planning.record_study(c, study, data))

    def add_cells(self, cells: Iterable[PlannedCell]) -> None:
        """Adds the cells that are not there yet, in plan order.

        Raises:
            StoreError: A cell of that id is there with another value.
        """
        planned = tuple(cells)
        self._database.write(lambda c: planning.add_cells(c, planned))

    def link_optuna(self, numbers: Mapping[str, int]) -> None:
        """Records the Optuna trial number of each cell, by the cell's id."""
        self._database.write(lambda c: planning.link_optuna(c, numbers))

    def end_study(self, why: str) -> None:
        """Records why the study ended."""
        self._database.write(lambda c: planning.end_study(c, why))

    def close_not_run(self, why: str) -> int:
        """Ends the study early: cells that never started become `not_run`; returns how many."""
        return self._database.write(lambda c: planning.close_not_run(c, why))

    def reopen_study(self) -> int:
        """Lets the study go on: `not_run` cells wait again; returns how many."""
        return self._database.write(planning.reopen_study)

    # What users change by hand; only the study's one coordinator may.

    def reopen(
        self, cell: str, *, kind: Intervention = Intervention.RETRY, from_the_start: bool
    ) -> bool:
        """Opens an ended cell, and the study, again; False, and nothing changes, if it is open.

        Args:
            from_the_start: The attempts so far are left behind; otherwise the next one goes on
                from their newest checkpoint.
        """
        return self._database.write(
            lambda c: interventions.reopen(c, cell, kind=kind, from_the_start=from_the_start)
        )

    def amend(self, limits: Mapping[str, str], cells: Iterable[str]) -> None:
        """Records limits by name that hold from now on, and opens the cells again that they ended.

        Args:
            cells: They go on from their newest checkpoints.
        """
        reopened = tuple(cells)
        self._database.write(lambda c: interventions.amend(c, limits, reopened))

    def amended_limits(self) -> Mapping[str, str]:
        """Returns the limits that were amended by name, as they are now."""
        return self._database.read(interventions.amended_limits)

    def cancel(self, cell: str, why: str) -> bool:
        """Ends a waiting cell as cancelled; False, and nothing changes, if it is not waiting."""
        return self._database.write(lambda c: interventions.cancel(c, cell, why))

    def close_study(self, why: str) -> tuple[str, ...]:
        """Ends every waiting cell as cancelled, and the study for good; returns these cells."""
        return self._database.write(lambda c: interventions.close_study(c, why))

    def record_cleaning(self, *, checkpoints: int, size_bytes: int) -> None:
        """Records that so many checkpoints were dropped, and what they held."""
        self._database.write(
            lambda c: interventions.record_cleaning(
                c, checkpoints=checkpoints, size_bytes=size_bytes
            )
        )

    def attach(self, values: Mapping[Place, float], source: Source, *, replace: bool) -> Attachment:
        """Adds a user's own metrics; where one differs from what is there, none unless `replace`.

        Args:
            values: Finite numbers, by cell and by the metric's name.
        """
        return self._database.write(lambda c: metrics.attach(c, values, source, replace=replace))

    def freeze(self, choice: Frozen, why: str) -> Link:
        """Records the choice and closes the study; returns the chain's entry.

        Raises:
            StudyConflict: It was frozen by somebody else meanwhile.
        """
        return self._database.write(lambda c: interventions.freeze(c, choice, why))

    def frozen(self) -> Frozen | None:
        """Returns the frozen choice, the latest one; None before there is one."""
        return self._database.read(chain.frozen)

    def is_closed(self) -> bool:
        """Says whether a user has closed the study."""
        return self._database.read(interventions.is_closed)

    def left_behind(self, cell: str) -> int:
        """Returns the number of the last attempt that later ones take nothing over from, or 0."""
        return self._database.read(lambda c: interventions.left_behind(c, cell))

    # Owning a cell.

    def claim(  # noqa: PLR0913  # who claims, where, and which cells
        self,
        owner: Owner,
        slot: str,
        *,
        cell: str | None = None,
        reverse: bool = False,
        lease_seconds: float = LEASE_SECONDS,
        barred: Collection[str] = (),
        known: Mapping[str, str] | None = None,
        alone_after: int | None = None,
    ) -> Claim | None:
        """Takes the first free cell in plan order, or the given one; None if there is none.

        The caller owns the cell until it calls `finish`, or is declared dead. After a `StoreError`
        the next call for the same owner and slot returns the cell that this one may have taken.

        Args:
            reverse: From the end of the plan; for tests of the order's harmlessness.
            barred: Cells that are left to others.
            known: What is known of the slot: cells are left out whose seed began elsewhere, see
                `placement`. None: every cell may start there.
            alone_after: Nothing is taken unless so many attempts have begun, and none of them runs.
        """
        wanted = claims.Wanted(
            cell=cell, reverse=reverse, barred=tuple(barred), alone_after=alone_after
        )
        token = self._unanswered.pop((owner, slot), None) or secrets.token_hex(16)
        try:
            return self._database.write(
                lambda c: claims.claim(
                    c,
                    owner,
                    slot,
                    wanted=placement.only_fitting(c, wanted, known, host=owner.host),
                    lease_seconds=lease_seconds,
                    token=token,
                )
            )
        except StoreError:
            self._unanswered[owner, slot] = token
            raise

    def renew(self, claim: Claim, *, lease_seconds: float = LEASE_SECONDS) -> bool:
        """Extends the claim's lease from now; False once the cell belongs to somebody else."""
        return self._database.write(lambda c: claims.renew(c, claim, lease_seconds=lease_seconds))

    def record_processes(
        self, claim: Claim, *, supervisor: Process | None = None, child: Process | None = None
    ) -> None:
        """Records which processes run the attempt; what is None stays as it is."""
        self._database.write(
            lambda c: claims.record_processes(c, claim, supervisor=supervisor, child=child)
        )

    def greatest_fencing_number(self) -> int:
        """Returns the greatest number that an owner of any cell has had; 0 before there is one."""
        return self._database.read(claims.greatest_fencing_number)

    def live_attempts(self, *, grace_seconds: float = 0.0) -> list[LiveAttempt]:
        """Returns the attempts that own their cells, in plan order.

        Args:
            grace_seconds: How long after its lease expired an attempt counts as overdue.
        """
        return self._database.read(lambda c: recovery.live_attempts(c, grace_seconds=grace_seconds))

    def lose_dead(
        self, is_dead: Callable[[Owner], bool], *, max_resumes: int
    ) -> tuple[LiveAttempt, ...]:
        """Ends attempts of dead owners as lost/worker_lost and frees their cells; returns them.

        Ingest what they left in their folders first, and finish those that had a result.

        Args:
            is_dead: Whether the owner is proved dead; called outside any transaction.
            max_resumes: Losses of a cell without progress after which it ends as lost.
        """
        dead = [live for live in self.live_attempts() if is_dead(live.claim.owner)]
        return self._lose(dead, why="is gone", max_resumes=max_resumes)

    def lose_overdue(self, live: LiveAttempt, *, grace_seconds: float, max_resumes: int) -> bool:
        """Does the same for one whose lease expired more than `grace_seconds` ago, and still is.

        False, and nothing changes, if its owner has renewed the lease or ended the attempt.
        """
        return self._database.write(
            lambda c: recovery.lose_overdue(
                c, live, grace_seconds=grace_seconds, max_resumes=max_resumes
            )
        )

    def take_over(
        self, claim: Claim, owner: Owner, slot: str, *, lease_seconds: float = LEASE_SECONDS
    ) -> Claim | None:
        """Makes the owner that of an attempt which still runs; None if the claim does not hold.

        The attempt goes on under a fencing number of its own; who held it before is fenced off.
        """
        return self._database.write(
            lambda c: recovery.take_over(c, claim, owner, slot, lease_seconds=lease_seconds)
        )

    def _lose(
        self, lost: list[LiveAttempt], *, why: str, max_resumes: int
    ) -> tuple[LiveAttempt, ...]:
        if not lost:
            return ()
        return self._database.write(
            lambda c: recovery.lose(c, lost, why=why, max_resumes=max_resumes)
        )

    # Where the cells of a seed may run.

    def seed_places(self) -> Mapping[int, SeedPlace]:
        """Returns where each seed began that has begun, by seed."""
        return self._database.read(placement.seed_places)

    def slots(self) -> tuple[SlotRecord, ...]:
        """Returns the slots of those who run the study, or last ran it."""
        return self._database.read(placement.read_slots)

    def record_slots(
        self,
        owner: Owner,
        known: Mapping[str, Mapping[str, str]],
        *,
        instead_of: Collection[SlotRecord] = (),
    ) -> None:
        """Records what is known of the owner's slots, by name.

        Args:
            instead_of: Slots of others, which are no more.
        """
        self._database.write(
            lambda c: placement.record_slots(c, owner, known, instead_of=instead_of)
        )

    # What an attempt reports.

    def ingest(self, claim: Claim, events: Iterable[Event]) -> int:
        """Stores events that are not stored yet; returns the last sequence number on record.

        Events of an attempt that lost its cell are its history, and are stored too.

        Raises:
            StoreError: A sequence number is missing before one of the events.
        """
        batch = tuple(events)
        return self._database.write(lambda c: ingest.store_events(c, claim, batch))

    def finish(
        self, claim: Claim, outcome: Outcome, *, max_resumes: int, cost: Cost | None = None
    ) -> bool:
        """Ends the attempt and its cell, or leaves the cell open where it may be resumed.

        True if the record says that the attempt ended for this reason, now or before. False if
        the cell was taken over or the attempt had ended otherwise: then the result is kept
        among the late ones, and counts for nothing.

        Args:
            max_resumes: Losses of a cell without progress after which it ends as lost.
        """
        return self._database.write(
            lambda c: endings.finish(c, claim, outcome, cost or Cost(), max_resumes=max_resumes)
        )

    def journal(self) -> Journal:
        """Returns what users changed by hand, in order, and whether the study has ended."""
        return self._database.read(restoring.read_journal)

    # Reading.

    def study(self) -> RecordedStudy:
        """Returns the recorded study.

        Raises:
            StoreError: There is none yet.
        """
        return self._database.read(reading.the_study)

    def age_seconds(self) -> float:
        """Returns how long ago the study began, by the database's clock.

        Raises:
            StoreError: There is none yet.
        """
        return self._database.read(reading.age_seconds)

    def has_study(self) -> bool:
        """Says whether there is a recorded study, also where it cannot be read."""
        return self._database.read(planning.has_study)

    def find_study(self) -> RecordedStudy | None:
        """Returns the recorded study, or None before there is one."""
        return self._database.read(planning.read_study)

    def cells(self) -> tuple[CellRecord, ...]:
        """Returns where every cell stands, in plan order."""
        return self._database.read(reading.cell_records)

    def starts(self) -> tuple[Start, ...]:
        """Returns what each cell's latest attempt that got so far started from."""
        return self._database.read(reading.starts)

    def stretches(self) -> tuple[Start, ...]:
        """Returns what every attempt in each trial's history started from, the first one first."""
        return self._database.read(reading.stretches)

    def notes(self, cell: str | None = None) -> tuple[AttemptEvent, ...]:
        """Returns all attempts' facts that are neither updates nor evaluations, in order."""
        return self._database.read(lambda c: reading.notes(c, cell=cell))

    def late_results(self) -> tuple[LateResult, ...]:
        """Returns the results that came too late to count."""
        return self._database.read(reading.late_results)

    def outcome(self, claim: Claim) -> Outcome | None:
        """Returns how the claim's attempt ended; None while it has not."""
        return self._database.read(
            lambda c: reading.outcome_of_attempt(c, cell=claim.cell, attempt=claim.attempt)
        )

    def trials(self, cell: str | None = None) -> list[Row]:
        """Returns the rows of `sweeper_trials`, in plan order."""
        return self._rows(views.TRIALS, cell)

    def updates(self, cell: str | None = None) -> list[Row]:
        """Returns the rows of `sweeper_updates` in plan order, window by window."""
        return self._rows(views.UPDATES, cell, "window")

    def evaluations(self, cell: str | None = None) -> list[Row]:
        """Returns the rows of `sweeper_evaluations` in plan order, as they were made."""
        return self._rows(views.EVALUATIONS, cell, "attempt", "sequence")

    def attempts(self, cell: str | None = None) -> list[Row]:
        """Returns the rows of `sweeper_attempts` in plan order, the first attempt first."""
        return self._rows(views.ATTEMPTS, cell, "attempt")

    def repeated_work(self) -> Mapping[str, Repeated]:
        """Returns what was done again, by cell; cells without such work are left out."""
        return self._database.read(reading.repeated_work)

    def metrics(self) -> list[Row]:
        """Returns the metrics that users attached, in plan order; no evidence, see `metrics`."""
        return self._database.read(metrics.metrics)

    def _rows(self, view: str, cell: str | None, *order: str) -> list[Row]:
        return self._database.read(lambda c: reading.view_rows(c, view, cell=cell, order=order))
