"""What scripts/chaos.py does to a study, what a fault may bring about, and what came of it. Pure.

A fault is explained when an attempt ended because of it, or when it can be said why it had no
effect. An attempt is explained when it was completed, or when a fault hit it that ends attempts for
that reason. Both are asked: a fault without an effect is as suspicious as an end without a fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

COMPLETED = "completed"
CLOCK_SLACK_SECONDS = 2.0
"""Start times of processes follow small corrections of the clock."""
SLACK = timedelta(seconds=3)
"""Between a fault and the first and last moment at which it can meet an attempt."""


class Target(StrEnum):
    """What is hit."""

    CHILD = "trial"
    SUPERVISOR = "supervisor"
    COORDINATOR = "coordinator"
    TEMPLATE = "template"
    DATABASE = "database"
    DISK = "disk"
    JOB = "job"


class Kind(StrEnum):
    """What is done to it; `freeze` is a stop that ends in a kill."""

    KILL_CHILD = "kill trial"
    END_CHILD = "SIGTERM trial"
    STOP_CHILD = "stop trial"
    FREEZE_CHILD = "freeze trial"
    KILL_SUPERVISOR = "kill supervisor"
    STOP_SUPERVISOR = "stop supervisor"
    FREEZE_SUPERVISOR = "freeze supervisor"
    KILL_COORDINATOR = "kill coordinator"
    STOP_COORDINATOR = "stop coordinator"
    FREEZE_COORDINATOR = "freeze coordinator"
    INTERRUPT = "Ctrl-C"
    INTERRUPT_TWICE = "Ctrl-C twice"
    KILL_TEMPLATE = "kill template"
    STOP_TEMPLATE = "stop template"
    LOCK_DATABASE = "lock database"
    END_SESSIONS = "end sessions"
    RESTART_DATABASE = "restart database"
    CRASH_DATABASE = "crash database"
    DATABASE_AWAY = "database away"
    FULL_DISK = "full disk"
    CANCEL_JOB = "kill engine job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a kind of fault does.

    Attributes:
        target: What it hits.
        reasons: Why attempts end that it ends; empty: it ends none.
        patience_seconds: How long the attempts that it hits may run on.
    """

    target: Target
    reasons: frozenset[str] = frozenset()
    patience_seconds: float = 60.0

    @property
    def patience(self) -> timedelta:
        """The same as a time."""
        return timedelta(seconds=self.patience_seconds)


def _ends(target: Target, *reasons: str, within_seconds: float = 60.0) -> Effect:
    return Effect(target=target, reasons=frozenset(reasons), patience_seconds=within_seconds)


EFFECTS: Mapping[Kind, Effect] = MappingProxyType(
    {
        Kind.KILL_CHILD: _ends(Target.CHILD, "killed", within_seconds=20),
        Kind.END_CHILD: _ends(Target.CHILD, "preempted", "killed"),
        Kind.STOP_CHILD: Effect(target=Target.CHILD),
        Kind.FREEZE_CHILD: _ends(Target.CHILD, "killed", within_seconds=20),
        Kind.KILL_SUPERVISOR: _ends(Target.SUPERVISOR, "worker_lost"),
        Kind.STOP_SUPERVISOR: Effect(target=Target.SUPERVISOR),
        Kind.FREEZE_SUPERVISOR: _ends(Target.SUPERVISOR, "worker_lost"),
        Kind.KILL_COORDINATOR: _ends(Target.COORDINATOR, "worker_lost"),
        Kind.STOP_COORDINATOR: Effect(target=Target.COORDINATOR),
        Kind.FREEZE_COORDINATOR: _ends(Target.COORDINATOR, "worker_lost"),
        # A coordinator that is killed, or whose disk is full, before it has put on record that the
        # user asked, leaves an end that says what the trial or its supervisor saw.
        Kind.INTERRUPT: _ends(Target.COORDINATOR, "user_cancelled", "preempted"),
        Kind.INTERRUPT_TWICE: _ends(
            Target.COORDINATOR, "user_cancelled", "preempted", "worker_lost"
        ),
        Kind.KILL_TEMPLATE: Effect(target=Target.TEMPLATE),
        Kind.STOP_TEMPLATE: Effect(target=Target.TEMPLATE),
        Kind.LOCK_DATABASE: Effect(target=Target.DATABASE),
        Kind.END_SESSIONS: Effect(target=Target.DATABASE),
        Kind.RESTART_DATABASE: Effect(target=Target.DATABASE),
        Kind.CRASH_DATABASE: Effect(target=Target.DATABASE),
        Kind.DATABASE_AWAY: Effect(target=Target.DATABASE),
        Kind.FULL_DISK: _ends(Target.DISK, "disk"),
        Kind.CANCEL_JOB: _ends(Target.JOB, "worker_lost", "preempted", "killed"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process: its id, and when it started in seconds since the boot."""

    pid: int
    started_at: float

    def is_same(self, other: Process | None) -> bool:
        """Says whether both name one process."""
        if other is None or self.pid != other.pid:
            return False
        return abs(self.started_at - other.started_at) <= CLOCK_SLACK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of the log.

    Attributes:
        study: The name under which the study ran.
        at: UTC.
        until: When it was over: of a stop, when the target went on or was killed.
        process: What was hit; None for the database and the disk.
        parent: Of that process, where it was a template's.
        cell: Whose attempt it was, where that is known.
        attempt: Its number.
        was_gone: Whether there was nothing any more that could have been hit.
        observed: What was seen of it, for people.
    """

    number: int
    study: str
    kind: Kind
    at: datetime
    until: datetime
    process: Process | None = None
    parent: Process | None = None
    cell: str | None = None
    attempt: int | None = None
    was_gone: bool = False
    observed: str = ""

    @property
    def effect(self) -> Effect:
        """What such a fault does."""
        return EFFECTS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the first sign of life to the last."""

    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt as the record and its folder have it.

    Attributes:
        claimed_at: By the record.
        ended_at: By the record; None if it says of no end.
        life: Of its processes; None if there never was one.
        reason: None if the record says of no end.
        supervisor: None on record for one that died before it had started anything.
        named_supervisor: Its process id as the end of such an attempt names it.
        is_job: Whether it is an engine's, and may outlive its coordinator.
    """

    cell: str
    number: int
    claimed_at: datetime
    ended_at: datetime | None
    life: Span | None
    outcome: str | None
    reason: str | None
    coordinator: Process
    supervisor: Process | None = None
    named_supervisor: int | None = None
    child: Process | None = None
    is_job: bool = False

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.cell} #{self.number}"

    def was_there(self, begin: datetime, end: datetime) -> bool:
        """Says whether it was claimed and not yet ended at some moment between the two."""
        over = self.ended_at is not None and self.ended_at < begin - SLACK
        return self.claimed_at <= end + SLACK and not over

    def outlived(self, moment: datetime) -> bool:
        """Says whether its processes ran on after it."""
        return self.life is not None and self.life.end > moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What came of a fault; `text` is None where nothing explains it."""

    fault: Fault
    attempts: tuple[str, ...] = ()
    text: str | None = None


def hits(fault: Fault, attempt: Attempt) -> bool:
    """Says whether the fault met something that the attempt depended on."""
    if fault.was_gone or not attempt.was_there(fault.at, fault.until):
        return False
    match fault.effect.target:
        case Target.CHILD | Target.JOB:
            return (fault.cell, fault.attempt) == (attempt.cell, attempt.number)
        case Target.SUPERVISOR:
            named = fault.process is not None and fault.process.pid == attempt.named_supervisor
            return named or _is(fault.process, attempt.supervisor)
        case Target.COORDINATOR:
            return _is(fault.process, attempt.coordinator)
        case Target.TEMPLATE:
            return _is(fault.parent, attempt.supervisor)
        case Target.DATABASE | Target.DISK:
            return True


def _is(one: Process | None, other: Process | None) -> bool:
    return one is not None and one.is_same(other)


def cause_of(attempt: Attempt, faults: Sequence[Fault]) -> Fault | None:
    """Returns the fault that the attempt ended of: of those it may be, the last one before it."""
    end = attempt.life.end if attempt.life is not None else attempt.ended_at
    if end is None:
        return None
    able = [
        fault
        for fault in faults
        if attempt.reason in fault.effect.reasons
        and hits(fault, attempt)
        and fault.at - SLACK <= end <= fault.until + fault.effect.patience
    ]
    return max(able, key=lambda fault: (fault.until, fault.number), default=None)


def explain(fault: Fault, faults: Sequence[Fault], attempts: Sequence[Attempt]) -> Explanation:
    """Returns what came of the fault.

    Args:
        fault: One of `faults`.
        faults: All of the same study.
        attempts: Likewise.
    """
    hit = [attempt for attempt in attempts if hits(fault, attempt)]
    causes = {attempt.name: cause_of(attempt, faults) for attempt in hit}
    ended = [attempt for attempt in hit if causes[attempt.name] == fault]
    names = tuple(attempt.name for attempt in ended or hit)
    if fault.was_gone:
        text: str | None = "no effect: it had gone by then"
    elif ended:
        text = "ended " + ", ".join(f"{attempt.name} ({attempt.reason})" for attempt in ended)
    elif not hit:
        missed = fault.effect.target in {Target.CHILD, Target.JOB}  # of an attempt, by definition
        text = None if missed else "no effect: no attempt depended on it then"
    else:
        text = _without_effect(fault, hit, causes)
    return Explanation(fault=fault, attempts=names, text=text)


def _without_effect(
    fault: Fault, hit: Sequence[Attempt], causes: Mapping[str, Fault | None]
) -> str | None:
    """Returns why the fault ended none of the attempts it hit; None if they should have ended."""
    if any(attempt.outcome != COMPLETED and causes[attempt.name] is None for attempt in hit):
        return None
    if not fault.effect.reasons:
        return "no effect: it went on afterwards"
    give_up = fault.until + fault.effect.patience
    may_outlive = fault.effect.target is Target.COORDINATOR
    if any(a.outlived(give_up) and not (may_outlive and a.is_job) for a in hit):
        return None
    return "no effect: " + ", ".join(_told(attempt, causes[attempt.name]) for attempt in hit)


def _told(attempt: Attempt, cause: Fault | None) -> str:
    return f"{attempt.name} " + ("completed" if cause is None else f"ended of #{cause.number}")


def unexplained_ends(attempts: Sequence[Attempt], faults: Sequence[Fault]) -> list[str]:
    """Returns a sentence for each attempt that ended, or did not, and no fault says why."""
    return [
        f"{attempt.name} ended as {attempt.outcome} ({attempt.reason}), and no fault says why"
        for attempt in attempts
        if attempt.outcome != COMPLETED and cause_of(attempt, faults) is None
    ]


def double_owners(attempts: Sequence[Attempt]) -> list[str]:
    """Returns a sentence for each pair of attempts of one cell whose processes lived together."""
    lived = [attempt for attempt in attempts if attempt.life is not None]
    return [
        f"{first.name} and #{second.number} had processes at the same time, from {begin} to {end}"
        for first, second in itertools.combinations(lived, 2)
        if first.cell == second.cell
        for begin, end in _common(first, second)
    ]


def _common(first: Attempt, second: Attempt) -> Iterator[tuple[datetime, datetime]]:
    assert first.life is not None
    assert second.life is not None
    begin = max(first.life.begin, second.life.begin)
    end = min(first.life.end, second.life.end)
    if begin < end:
        yield begin, end


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a coordinator ended.

    Attributes:
        status: Of the process; negative: a signal's number.
        last_words: The end of what it wrote for people.
    """

    study: str
    process: Process
    status: int
    at: datetime
    last_words: str = ""


_REGULAR = frozenset({0})
_BY_TARGET: Mapping[Target, frozenset[int]] = MappingProxyType(
    {
        Target.COORDINATOR: frozenset({-9, -2, 130}),
        Target.DATABASE: frozenset({1}),
        Target.DISK: frozenset({1, 2, 3}),
    }
)
"""Statuses that a fault of this target may bring about; 2 on a full disk: no room for the run."""
LATE_EXIT = timedelta(minutes=3)
"""How long a coordinator tries before it gives up a database that it cannot use."""


def unexplained_exits(exits: Sequence[Exit], faults: Sequence[Fault]) -> list[str]:
    """Returns a sentence for each coordinator that ended as none of the faults makes it end."""
    return [
        f"coordinator {exit_.process.pid} ended with status {exit_.status}: {exit_.last_words}"
        for exit_ in exits
        if exit_.status not in _REGULAR
        and not any(_made_it_leave(fault, exit_) for fault in faults)
    ]


def _made_it_leave(fault: Fault, exit_: Exit) -> bool:
    target = fault.effect.target
    if exit_.status not in _BY_TARGET.get(target, frozenset()) or exit_.study != fault.study:
        return False
    if target is Target.COORDINATOR:
        return exit_.process.is_same(fault.process)
    return fault.at <= exit_.at <= fault.until + LATE_EXIT
