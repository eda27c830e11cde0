"""Tells an empty record everything that happened in a study once more, from its run folder."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sweeper.errors import Fault, RunFolderError
from sweeper.records import Evaluation, Event, Outcome, OutcomeKind, Reason
from sweeper.store.claims import Claim, Owner
from sweeper.store.interventions import Intervention
from sweeper.store.restoring import Entry
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.study.spec import TrialSpec
from sweeper.sweep.finishing import Terms, finish_attempt
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.reconciling import bring_in_step, reconcile
from sweeper.sweep.remains import AttemptRemains, Remains
from sweeper.sweep.verdicts import Verdict
from sweeper.training.watch import VALIDATION
from sweeper.workers.aftermath import aftermath

_UNKNOWN_SLOT = "unknown"


@dataclass(slots=True)
class Restoring:
    """A record that is made anew, and how far that has come.

    Attributes:
        owner: This process; an attempt that does not say whose it was counts as its own.
        tell: Told, as sentences, what is not as it was.
        done: How many of each cell's attempts are on record by now.
    """

    remains: Remains
    store: StudyStore
    optuna_study: OptunaStudy
    owner: Owner
    terms: Terms
    tell: Callable[[str], None]
    done: dict[str, int] = field(default_factory=dict)

    def everything(self) -> None:
        """Does all that the run folder tells of, in the order in which it was done.

        Attempts that nobody judged and nothing followed are left as their coordinator's.

        Raises:
            RunFolderError: What the folder tells of cannot have been so.
            StoreError: The database cannot be used.
        """
        remains, store = self.remains, self.store
        if remains.chain:
            store.chain.restore(remains.chain)
        else:
            self.tell("the chain has no mirror in the run folder: it begins anew")
        store.record_study(remains.study, data=remains.data)
        store.add_cells(remains.cells)
        for entry in remains.journal.entries:
            self._queue(remains.cells_added_until(entry.at))
            self._intervention(entry)
        self._queue(remains.cells)
        for cell in remains.cells:
            self._attempts(cell.id, until=len(remains.attempts.get(cell.id, ())), is_over=False)

    def the_end(self) -> None:
        """Puts on record whether the study has ended, and brings Optuna in step.

        Raises:
            StoreError: The database cannot be used.
        """
        state = self.remains.journal.state
        if state is not None:
            self.store.restored.state(state)
        reconcile(self.store, self.optuna_study)

    def _queue(self, cells: Sequence[Cell]) -> None:
        """Queues Optuna's trials for the cells that have none."""
        self.optuna_study.add(cells)
        self.optuna_study.enqueue(fingerprint=self.remains.study.fingerprint)
        self.store.link_optuna(self.optuna_study.numbers())

    def _intervention(self, entry: Entry) -> None:
        if entry.cell is not None:
            self._attempts(entry.cell, until=entry.after_attempt or 0, is_over=True)
        elif entry.kind is Intervention.CLOSE:
            for cell in self.remains.cells:
                self._attempts(cell.id, until=len(self.remains.attempts.get(cell.id, ())))
        if not self.store.restored.entry(entry):
            raise RunFolderError(
                Fault(
                    what=f"the journal has a {entry.kind} that does not fit the attempts",
                    where=f"intervention {entry.number}",
                    got=f"{entry.cell or 'the study'} after attempt {entry.after_attempt}",
                    hint="A line of it, or an attempt's folder, is missing: put a copy back",
                )
            )
        if entry.cell is not None:
            self._bring_in_step(entry.cell)

    def _attempts(self, cell: str, *, until: int, is_over: bool = True) -> None:
        """Puts the cell's attempts on record up to that one, unless they are.

        Args:
            is_over: Whether something is known to have happened to the cell after them.
        """
        attempts = self.remains.attempts.get(cell, ())
        for attempt in attempts[self.done.get(cell, 0) : until]:
            self._attempt(attempt, is_over=is_over or attempt.number < len(attempts))
        self.done[cell] = max(until, self.done.get(cell, 0))

    def _attempt(self, attempt: AttemptRemains, *, is_over: bool) -> None:
        claim = self._claim(attempt)
        claimed_at = attempt.claimed.at if attempt.claimed else None
        if not self.store.restored.claim(claim, claimed_at=claimed_at):
            raise RunFolderError(
                Fault(
                    what=f"{attempt.name} followed an end after which there is no other attempt",
                    where=str(attempt.folder.path),
                    hint="The line of the journal that opened the trial again is missing: put a "
                    "copy of the journal back",
                )
            )
        if attempt.damage is not None:
            self.tell(f"{attempt.name}: {attempt.damage}")
        self.optuna_study.start(claim.cell)
        events = attempt.read_events()
        self.store.ingest(claim, events)
        for loss, index in _validation_losses(events):  # also what was done again later
            self.optuna_study.report(claim.cell, index=index, validation_loss=loss)
        if attempt.verdict is not None:
            self._verdict(claim, attempt, attempt.verdict)
        elif is_over:
            outcome = finish_attempt(
                self.store, claim, attempt.folder, aftermath(attempt.folder), terms=self.terms
            )
            self.tell(f"{attempt.name}: without a verdict, on record as {_told(outcome)}")
        self._bring_in_step(claim.cell)

    def _bring_in_step(self, cell: str) -> None:
        """Lets Optuna know at once, for its trials are numbered in the order they are queued."""
        (known,) = (each for each in self.store.cells() if each.cell == cell)
        bring_in_step(self.store, self.optuna_study, known)

    def _claim(self, attempt: AttemptRemains) -> Claim:
        known = attempt.verdict or attempt.claimed
        if known is not None:
            return known.claim
        self.tell(f"{attempt.name}: its folder does not say whose it was")
        spec = attempt.folder.spec
        fence = TrialSpec.read(spec).fencing_number if spec.exists() else attempt.number
        place = attempt.folder.path
        return Claim(
            cell=attempt.cell.id,
            arm=attempt.cell.arm,
            seed=attempt.cell.seed,
            attempt=attempt.number,
            fencing_number=fence,
            owner=self.owner,
            slot=_UNKNOWN_SLOT,
            folder=os.path.relpath(place, place.parents[3]),
        )

    def _verdict(self, claim: Claim, attempt: AttemptRemains, verdict: Verdict) -> None:
        store, outcome = self.store, self._still_so(attempt, verdict.outcome)
        store.record_processes(claim, supervisor=verdict.supervisor, child=verdict.child)
        store.finish(claim, outcome, cost=verdict.cost, max_resumes=verdict.max_resumes)
        store.restored.time(claim, at=verdict.at)
        for late in attempt.late:
            store.finish(claim, late.outcome, cost=late.cost, max_resumes=late.max_resumes)
            store.restored.time(claim, at=late.at, late=late.outcome.reason)

    def _still_so(self, attempt: AttemptRemains, outcome: Outcome) -> Outcome:
        """Returns the outcome; a result that its events do not bear out any more is none."""
        if attempt.damage is None:
            return outcome
        evidence = {**outcome.evidence, "events": attempt.damage}
        if outcome.kind is not OutcomeKind.COMPLETED:
            return dataclasses.replace(outcome, evidence=evidence)
        self.tell(f"{attempt.name}: was complete, and is no result any more")
        detail = f"it was complete, but {attempt.damage}"
        return Outcome(reason=Reason.RESULT_MISSING, detail=detail, evidence=evidence)


def _validation_losses(events: Iterable[Event]) -> Iterator[tuple[float, int]]:
    for event in events:
        record = event.record
        if isinstance(record, Evaluation) and record.split == VALIDATION:
            yield record.loss, record.index


def _told(outcome: Outcome) -> str:
    return f"{outcome.kind} ({outcome.reason})"
