"""Attempts and changes by hand on record, against their entries in the chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sweeper.records import OutcomeKind, Reason
from sweeper.report.audits.check import Check, RecordUnderAudit, counted
from sweeper.selection.chain import EntryKind


def check_trials(case: RecordUnderAudit) -> Check:
    """Whether attempts on record began and ended as the chain says."""
    told = {_place(facts): facts for facts in case.facts(EntryKind.TRIAL_ENDED)}
    events = {place: facts.get("events") for place, facts in told.items()}
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
    findings += _result_findings(case, recorded)
    unsealed = sum(not facts.keys() >= _SINCE for facts in told.values())
    remark = (
        f"Of {counted(unsealed, 'attempt', 'attempts')} the chain has not sealed what they started "
        "from and ran in: an earlier version recorded them."
    )
    return Check(
        about="Trials on record",
        looked_at=f"{counted(len(attempts), 'attempt', 'attempts')}, {len(recorded)} of them ended",
        findings=tuple(findings),
        remarks=(remark,) if unsealed else (),
    )


def _result_findings(
    case: RecordUnderAudit, recorded: Mapping[tuple[str, int], Mapping[str, object]]
) -> Iterator[str]:
    """Yields trials that are on record otherwise than their last attempts and users left them."""
    by_hand = case.store.chain.recorded_interventions().values()
    last: dict[str, int] = {}
    for cell, attempt in map(_place, case.store.attempts()):
        last[cell] = max(attempt, last.get(cell, 0))
    for trial in case.store.cells():
        number = last.get(trial.cell, 0)
        ending = recorded.get((trial.cell, number))
        has = None if trial.outcome is None else f"{trial.outcome} ({trial.reason})"
        if has not in _results(trial.cell, number, ending, by_hand):
            then = "nothing" if ending is None else _outcome(ending)
            yield (
                f"{trial.cell} is on record as {has or trial.status}: its last attempt left it as "
                f"{then}, and nobody changed that by hand."
            )


def _results(
    trial: str,
    last: int,
    ending: Mapping[str, object] | None,
    by_hand: Iterable[Mapping[str, object]],
) -> set[str | None]:
    """Returns what may be on record of a trial as its outcome; None is none."""
    left = None if ending is None else _outcome(ending)
    is_final = ending is not None and ending["outcome"] not in _GO_ON
    of_trial = [facts for facts in by_hand if facts["trial"] == trial]
    reopened = [f for f in of_trial if f["what"] in _REOPENS and f["after_attempt"] == last]
    possible: set[str | None] = {None if reopened else left}
    if not is_final:
        possible.add(None)
    if any(facts["what"] == "cancel" for facts in of_trial) or any(
        trial in _closed(facts) for facts in by_hand
    ):
        possible.add(f"{OutcomeKind.CANCELLED} ({Reason.USER_CANCELLED})")
    return possible


_GO_ON = frozenset({OutcomeKind.LOST.value, OutcomeKind.CANCELLED.value})
"""Outcomes of attempts that another one may follow."""
_REOPENS = frozenset({"retry", "amend"})


def _closed(facts: Mapping[str, object]) -> Sequence[object]:
    """Returns the trials that ended with the study, if that is what was done."""
    detail = facts["detail"]
    cells = detail.get("cells") if isinstance(detail, Mapping) else None
    return cells if isinstance(cells, list) else ()


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
        sealed = (*_SEALED, *(each for each in _OF_THE_START if each[0] in told))
        yield from (
            f"{name}: {meaning} on record {verb} not what the chain sealed when it ended."
            for field, meaning, verb in sealed
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

_OF_THE_START = (
    ("initial_digest", "the tensors it started from", "are"),
    ("environment_sha256", "the environment it ran in", "is"),
    ("configuration_sha256", "the configuration it was told", "is"),
    ("resume_sha256", "what it went on from", "is"),
)
"""Likewise; entries of studies that were recorded before have none of it."""
_SINCE = frozenset(field for field, _, _ in _OF_THE_START)


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
