"""The end of an attempt: evidence, reason, artifacts, verdict, our record, Optuna, in this order.

Each step may be repeated, and none is needed twice: whoever is killed between two of them is
followed by a run that does the rest, from the attempt's folder and from our own record.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import EventsDamaged
from sweeper.records import Artifact, Event, Outcome, OutcomeKind, Reason
from sweeper.store.claims import Claim, Process
from sweeper.store.endings import Cost
from sweeper.store.plain import LONGEST_DETAIL, harmless
from sweeper.store.store import StudyStore
from sweeper.sweep.mirroring import mirror_attempt
from sweeper.sweep.verdicts import Verdict, leave_verdict, now, readable_verdict
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.ending import judge, listen
from sweeper.workers.supervision import Supervision
from sweeper.workers.tail import EventTail

BEST = "best"
_WEIGHTS = frozenset({"adapter", "model"})
"""Kinds of artifacts: the weights of the lowest validation loss, and the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an ending is measured by.

    Attributes:
        budget_target_tokens: What a completed trial has read, to the token.
        max_resumes: Losses of a cell without progress after which it ends as lost.
        keeps_best: Whether a completed trial leaves the weights of its lowest validation loss too.
    """

    budget_target_tokens: int
    max_resumes: int
    keeps_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """All of an attempt's events that can be read, and what is wrong with the rest."""

    events: tuple[Event, ...]
    damage: str | None

    def compared_with(self, recorded: int) -> _History:
        """Returns the history with its damage named, if `recorded` events were stored already."""
        there = len(self.events)
        if self.damage is not None or there >= recorded:
            return self
        gone = f"events.jsonl holds {there} events, {recorded} are on record: it was cut or removed"
        return dataclasses.replace(self, damage=gone)


def finish_attempt(
    store: StudyStore,
    claim: Claim,
    folder: AttemptFolder,
    supervision: Supervision,
    *,
    terms: Terms,
    asked: Reason | None = None,
) -> Outcome:
    """Puts on record how an attempt ended whose processes are all gone; returns the outcome.

    Everything is read from the folder, so it does not matter what was stored while it ran.

    Args:
        asked: Why the coordinator asked for the end, if it did.

    Raises:
        StoreError: The database cannot be used; nothing is lost, and it may be called again.
    """
    history = _read(folder)
    recorded = store.ingest(claim, history.events)
    history = history.compared_with(recorded)
    store.record_processes(claim, supervisor=_supervisor(supervision), child=_child(supervision))
    outcome = _outcome(history, folder, supervision, terms, asked)
    record_verdict(
        store,
        folder,
        Verdict(
            claim=claim,
            outcome=outcome,
            cost=_cost(supervision),
            max_resumes=terms.max_resumes,
            events=recorded,
            supervisor=_supervisor(supervision),
            child=_child(supervision),
            at=now(),
        ),
    )
    return outcome


def record_unstarted(
    store: StudyStore, claim: Claim, folder: AttemptFolder, outcome: Outcome, *, terms: Terms
) -> None:
    """Puts on record how an attempt ended that could not be started.

    Raises:
        StoreError: The database cannot be used.
    """
    resumes = terms.max_resumes
    verdict = Verdict(claim=claim, outcome=outcome, cost=Cost(), max_resumes=resumes, at=now())
    record_verdict(store, folder, verdict)


def record_verdict(store: StudyStore, folder: AttemptFolder, verdict: Verdict) -> None:
    """Ends the attempt on our record, once its folder says how.

    A result that came too late is stored apart, here and there.

    Raises:
        StoreError: The database cannot be used.
    """
    claim, outcome = verdict.claim, verdict.outcome
    before = readable_verdict(folder.verdict)
    is_first = before is None or before.outcome.reason is outcome.reason
    if is_first:
        leave_verdict(folder.verdict, verdict)
    counts = store.finish(claim, outcome, cost=verdict.cost, max_resumes=verdict.max_resumes)
    if not counts:
        leave_verdict(folder.late_verdict(outcome.reason), verdict)
    if counts is not is_first:  # another verdict stands there than the one on record
        row = store.attempts(claim.cell)[claim.attempt - 1]
        mirror_attempt(folder, row, max_resumes=verdict.max_resumes)


def _read(folder: AttemptFolder) -> _History:
    tail = EventTail(folder.events)
    events: list[Event] = []
    try:
        while fresh := tail.read():
            events += fresh
    except EventsDamaged as error:
        return _History(events=tuple(events), damage=str(error))
    return _History(events=tuple(events), damage=None)


def _outcome(
    history: _History,
    folder: AttemptFolder,
    supervision: Supervision,
    terms: Terms,
    asked: Reason | None,
) -> Outcome:
    outcome = judge(
        listen(event.record for event in history.events),
        supervision,
        planned_target_tokens=terms.budget_target_tokens,
        asked=asked,
    )
    if outcome.kind is OutcomeKind.COMPLETED:
        outcome = _with_artifacts(outcome, history, folder.path, terms)
    if history.damage is not None:
        evidence = {**outcome.evidence, "events": history.damage}
        detail = outcome.detail
        if outcome.reason is Reason.RESULT_MISSING:
            detail = f"{detail}; {history.damage}"
        outcome = dataclasses.replace(outcome, detail=detail, evidence=evidence)
    return _harmless(outcome)


def _harmless(outcome: Outcome) -> Outcome:
    """Returns the outcome as it is stored and told, whatever the trial put into it."""
    return dataclasses.replace(
        outcome,
        detail=harmless(outcome.detail, LONGEST_DETAIL),
        evidence={harmless(name): harmless(fact) for name, fact in outcome.evidence.items()},
    )


def _with_artifacts(outcome: Outcome, history: _History, folder: Path, terms: Terms) -> Outcome:
    """Returns the outcome, unless what the trial claims, or has, to leave behind is not there."""
    artifacts = [e.record for e in history.events if isinstance(e.record, Artifact)]
    missing = [artifact.path for artifact in artifacts if not (folder / artifact.path).exists()]
    kinds = {artifact.kind for artifact in artifacts}
    if missing:
        what = f"{', '.join(missing)} is not there"
    elif not kinds & _WEIGHTS:
        what = "it left no weights"
    elif terms.keeps_best and BEST not in kinds:
        what = "it left no weights of its lowest validation loss"
    else:
        return outcome
    return Outcome(
        reason=Reason.RESULT_MISSING,
        detail=f"it claims to be complete, but {what}",
        evidence=outcome.evidence,
    )


def _cost(supervision: Supervision) -> Cost:
    number = supervision.signal
    return Cost(
        wall_seconds=supervision.wall_seconds,
        peak_memory_bytes=supervision.peak_memory_bytes,
        exit_status=supervision.exit_status if number is None else -number,
    )


def _supervisor(supervision: Supervision) -> Process | None:
    return _process(supervision.supervisor_pid, supervision.supervisor_started_at)


def _child(supervision: Supervision) -> Process | None:
    return _process(supervision.pid, supervision.started_at)


def _process(pid: int | None, began: float | None) -> Process | None:
    return None if pid is None or began is None else Process(pid=pid, started_at=repr(began))
