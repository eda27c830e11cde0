"""What happened on the way: attempts, faults, remarks, and what was changed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sweeper.records import Notice, OutcomeKind
from sweeper.report.columns import SECONDS, Column, Table
from sweeper.report.discretion import LEFT_OUT, Discretion
from sweeper.report.dossier import Dossier
from sweeper.store.interventions import Intervention
from sweeper.store.reading import Row
from sweeper.store.restoring import Entry

ATTEMPTS = (
    Column(name="trial", kind="text", unit=None, meaning="arm and seed"),
    Column(name="attempt", kind="integer", unit=None, meaning="execution of the cell, from 1"),
    Column(name="outcome", kind="text", unit=None, meaning="how it ended; empty while it has not"),
    Column(name="reason", kind="text", unit=None, meaning="why it ended"),
    Column(name="detail", kind="text", unit=None, meaning="the sentence behind the reason"),
    Column(name="updates", kind="integer", unit="updates", meaning="updates that it made"),
    Column(
        name="resumed_after_window",
        kind="integer",
        unit="windows",
        meaning="last window of the checkpoint that it went on from",
    ),
    Column(name="wall_seconds", kind="number", unit=SECONDS, meaning="wall-clock time"),
    Column(name="claimed_at", kind="text", unit=None, meaning="when it was claimed, UTC"),
)
_HOST = Column(name="host", kind="text", unit=None, meaning="host of the coordinator")


def attempts(dossier: Dossier) -> Table:
    """Returns every execution of a cell, lost ones included."""
    columns = (*ATTEMPTS, _HOST) if dossier.discretion.with_paths else ATTEMPTS
    rows = [_attempt(row, dossier.discretion) for row in dossier.attempts]
    return Table(rows=rows, columns=columns)


def _attempt(row: Row, public: Discretion) -> Row:
    outcome = None if row["outcome"] is None else OutcomeKind(str(row["outcome"]))
    detail = public.detail(str(row["detail"] or ""), outcome)
    is_quiet = row["detail"] and not detail
    return row | {
        "detail": LEFT_OUT if is_quiet else detail,
        "claimed_at": str(row["claimed_at"])[:19].replace("T", " "),
    }


def remarks(dossier: Dossier) -> list[str]:
    """Returns what trials remarked, each once, with how many said it."""
    said = Counter(
        dossier.discretion.foreign(fact.event.record.message)
        for fact in dossier.remarks
        if isinstance(fact.event.record, Notice)
    )
    return [text if count == 1 else f"{text} ({count} times)" for text, count in said.items()]


def changes_on_the_way(dossier: Dossier) -> list[str]:
    """Returns trials that went on otherwise than they had begun."""
    return [
        f"{start.cell}, attempt {start.attempt}, after window {start.resumed_after_window}: "
        f"{dossier.discretion.foreign('; '.join(start.resume_differences))}."
        for start in dossier.stretches
        if start.resume_differences
    ]


def interventions(dossier: Dossier) -> list[str]:
    """Returns what users changed by hand, in order, as sentences."""
    public = dossier.discretion
    return [
        f"{entry.at[:19].replace('T', ' ')} UTC: {public.foreign(_sentence(entry))}"
        for entry in dossier.interventions
    ]


def _sentence(entry: Entry) -> str:
    detail = entry.detail
    why = detail.get("why", "no reason given")
    start = "from the start" if entry.from_the_start else "from its last checkpoint"
    amended = f"limits were amended for all arms: {_limits(detail)}"
    if entry.cell is not None:
        amended = f"{entry.cell} was let go on after its limit was raised{_after(entry)}"
    sentences = {
        Intervention.AMEND: amended,
        Intervention.RETRY: f"{entry.cell} was tried again, {start}{_after(entry)}",
        Intervention.CANCEL: f"{entry.cell} was cancelled: {why}",
        Intervention.CLOSE: f"the study was closed: {why}",
        Intervention.CLEAN: f"{detail.get('checkpoints')} checkpoints were removed to make room",
        Intervention.ATTACH: f"metrics were attached from {detail.get('source')}",
    }
    return f"{sentences.get(entry.kind, entry.kind.value)}."


def _limits(detail: Mapping[str, object]) -> str:
    limits, before = detail.get("limits"), detail.get("before")
    old = before if isinstance(before, Mapping) else {}
    told = limits.items() if isinstance(limits, Mapping) else ()
    return ", ".join(f"{name} {value}{_old(old.get(name))}" for name, value in told)


def _old(value: object) -> str:
    return "" if value is None else f" (before: {value})"


def _after(entry: Entry) -> str:
    return f"; attempt {entry.after_attempt} had ended: {entry.detail.get('reason')}"


def faults(dossier: Dossier) -> list[str]:
    """Returns the trials that did not complete, each with whose doing it was."""
    return list(_faults(dossier))


def _faults(dossier: Dossier) -> Iterator[str]:
    for row in dossier.trials.rows:
        if row["status"] == "not_run":
            yield f"{row['trial']} was not run: {dossier.discretion.foreign(str(row['detail']))}."
        elif row["outcome"] not in (None, OutcomeKind.COMPLETED.value):
            outcome = OutcomeKind(str(row["outcome"]))
            detail = dossier.discretion.detail(str(row["detail"] or ""), outcome)
            text = f"{row['trial']} {outcome.value} ({row['reason']})"
            yield f"{text}: {detail.rstrip('.')}." if detail else f"{text} {LEFT_OUT}."
