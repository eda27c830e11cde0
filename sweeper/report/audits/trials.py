"""Attempts and changes by hand on record, against their entries in the chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.report.audits.check import Check, RecordUnderAudit, counted
from sweeper.selection.chain import EntryKind


def check_trials(case: RecordUnderAudit) -> Check:
    """Whether attempts on record began and ended as the chain says."""
    told = {_place(facts): facts for facts in case.facts(EntryKind.TRIAL_ENDED)}
    events = {place: facts["events"] for place, facts in told.items()}
    known = {place: count for place, count in events.items() if isinstance(count, int)}
    recorded = case.store.chain.recorded_endings(known)
    started = {_place(facts) for facts in case.facts(EntryKind.TRIAL_STARTED)}
    attempts = [_place(row) for row in case.store.attempts()]
    findings = [
        f"{_named(place)}, is on record, and the chain does not have that it began."
        for place in attempts
        if place not in started
    ]
    for place in sorted(recorded.keys() | told.keys()):
        findings += _ending_findings(place, recorded.get(place), told.get(place))
    return Check(
        about="Trials on record",
        looked_at=f"{counted(len(attempts), 'attempt', 'attempts')}, {len(recorded)} of them ended",
        findings=tuple(findings),
    )


def _ending_findings(
    place: tuple[str, int],
    recorded: Mapping[str, object] | None,
    told: Mapping[str, object] | None,
) -> Iterator[str]:
    name = _named(place)
    if told is None:
        assert recorded is not None
        yield (
            f"{name}, ended as {_outcome(recorded)}, and the chain has no entry on it: entries "
            "were cut off, or it was put on record by other means."
        )
    elif recorded is None:
        yield f"{name}, ended as {_outcome(told)} in the chain, and has not ended on record."
    elif _outcome(recorded) != _outcome(told):
        yield (f"{name}: the record says {_outcome(recorded)}, the chain {_outcome(told)}.")
    else:
        yield from (
            f"{name}: {meaning} on record {verb} not what the chain sealed when it ended."
            for field, meaning, verb in _SEALED
            if recorded[field] != told.get(field)
        )


_SEALED = (
    ("weights_sha256", "the digest of its weights", "is"),
    ("best_sha256", "the digest of its best weights", "is"),
    ("evaluations_sha256", "its evaluations", "are"),
    ("windows", "the number of its windows", "is"),
    ("target_tokens_read", "the target tokens it read", "are"),
    ("target_tokens_applied", "the target tokens it applied", "are"),
)
"""What an entry on an ended attempt seals, and how a person names it."""


def check_interventions(case: RecordUnderAudit) -> Check:
    """Whether what users changed by hand is what the chain says."""
    recorded = case.store.chain.recorded_interventions()
    told = {facts.get("intervention"): facts for facts in case.facts(EntryKind.NOTE)}
    told.pop(None, None)
    findings = [
        f"Intervention {number} ({facts['what']}) is not in the chain as it is on record."
        for number, facts in recorded.items()
        if told.get(number) != facts
    ]
    findings += [
        f"The chain has an intervention {number} ({facts['what']}) that is not on record."
        for number, facts in told.items()
        if number not in recorded
    ]
    return Check(
        about="Changes by hand",
        looked_at=counted(len(recorded), "change", "changes"),
        findings=tuple(findings),
    )


def _place(facts: Mapping[str, object]) -> tuple[str, int]:
    attempt = facts.get("attempt")
    return str(facts.get("trial")), attempt if isinstance(attempt, int) else 0


def _named(place: tuple[str, int]) -> str:
    return f"{place[0]}, attempt {place[1]}"


def _outcome(facts: Mapping[str, object]) -> str:
    return f"{facts.get('outcome')} ({facts.get('reason')})"
