"""The one outcome of an attempt, from what the trial said and what its supervisor saw.

Pure: values in, a value out. The order of the questions is the rule:

1. An orderly end (exit status 0 and an outcome line) counts as the trial says, if what it says
   is borne out by its own records.
2. An end that somebody here brought about counts by the cause.
3. A signal, a status or a silence counts by what it is.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from sweeper.records import (
    Evaluation,
    Outcome,
    OutcomeKind,
    Reason,
    Record,
    Resumed,
    Update,
)
from sweeper.trial.deaths import outcome_of_signal, signal_name
from sweeper.trial.exit_status import ExitStatus
from sweeper.workers.supervision import Cause, Supervision

_BROUGHT_ABOUT = MappingProxyType(
    {
        Cause.NOT_STARTED: Reason.WORKER_LOST,
        Cause.WALL_CLOCK: Reason.WALL_CLOCK,
        Cause.HOST_MEMORY: Reason.HOST_MEMORY,
        Cause.DEVICE_MEMORY: Reason.DEVICE_MEMORY,
        Cause.DISK: Reason.DISK,
        Cause.HUNG: Reason.HUNG,
        Cause.STOPPED: Reason.PREEMPTED,
        Cause.KILLED: Reason.KILLED,
        Cause.COORDINATOR_LOST: Reason.WORKER_LOST,
        Cause.SUPERVISOR_LOST: Reason.WORKER_LOST,
    }
)


MEMORY_LEFT = "device_memory_left"
"""In the evidence: what a trial that has ended left on its GPUs; the slot's fault, not its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What an attempt said about itself.

    Attributes:
        outcome: Its last word; None when it did not come to say it.
        validation_loss: Of the last evaluation of the validation split; may not be finite.
        target_tokens_read: After the last window that it knows of: read by this attempt, or by one
            whose checkpoint it went on from.
        window: That window.
        last_finite_loss: The last finite loss of a window, in nats per target token; None if this
            attempt had none.
    """

    outcome: Outcome | None = None
    validation_loss: float | None = None
    target_tokens_read: int = 0
    window: int = 0
    last_finite_loss: float | None = None


def listen(records: Iterable[Record]) -> Statement:
    """Returns what an attempt's records say, read once from first to last."""
    statement = Statement()
    for record in records:
        statement = _heard(statement, record)
    return statement


def _heard(before: Statement, record: Record) -> Statement:
    match record:
        case Outcome():
            return replace(before, outcome=record)
        case Resumed():
            return replace(before, window=record.after_window)
        case Evaluation():
            # without a window of its own, it had gone on after the last one
            read = before.target_tokens_read or record.target_tokens_read
            said = replace(before, target_tokens_read=read)
            is_endpoint = record.split == "validation"
            return replace(said, validation_loss=record.loss) if is_endpoint else said
        case Update():
            said = replace(
                before, target_tokens_read=record.target_tokens_read, window=record.window
            )
            is_finite = record.loss is not None and math.isfinite(record.loss)
            return replace(said, last_finite_loss=record.loss) if is_finite else said
    return before


def judge(
    statement: Statement,
    supervision: Supervision,
    *,
    planned_target_tokens: int,
    asked: Reason | None = None,
) -> Outcome:
    """Returns how the attempt ended.

    Args:
        statement: What the trial said.
        supervision: What its supervisor saw.
        planned_target_tokens: What a completed trial has read, to the token.
        asked: Why the coordinator asked for the end, when it did: `user_cancelled` or `deadline`;
            without it such an end is a preemption, or a kill.
    """
    said, status = statement.outcome, supervision.exit_status
    if said is not None and status == ExitStatus.ORDERLY and said.reason is not Reason.PREEMPTED:
        verdict = _borne_out(said, statement, planned_target_tokens)
    elif supervision.cause is not Cause.EXITED:
        verdict = _by_cause(supervision, asked)
    elif supervision.signal is not None:
        verdict = _with_memory_kills(outcome_of_signal(supervision.signal), supervision)
    else:
        verdict = _with_memory_kills(_by_status(said, status), supervision)
        verdict = _crowded_out(_with_disk(verdict, supervision), supervision)
    evidence = _evidence(statement, supervision) | dict(verdict.evidence)
    if verdict.kind in {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}:
        evidence.pop("stderr_tail", None)  # nothing went wrong: it stays in the attempt's folder
    return Outcome(reason=verdict.reason, detail=verdict.detail, evidence=evidence)


def _borne_out(said: Outcome, statement: Statement, planned: int) -> Outcome:
    """Returns what the trial said, unless it claims a completion that its records deny."""
    if said.kind is not OutcomeKind.COMPLETED:
        return said
    loss, read = statement.validation_loss, statement.target_tokens_read
    if loss is None or not math.isfinite(loss):
        detail = f"it claims to be complete, but its last validation loss is {loss}"
        return Outcome(reason=Reason.RESULT_MISSING, detail=detail)
    if read != planned:
        detail = f"it claims to be complete, but read {read} of {planned} target tokens"
        return Outcome(reason=Reason.BUDGET_MISMATCH, detail=detail)
    return said


def _by_cause(supervision: Supervision, asked: Reason | None) -> Outcome:
    reason = _BROUGHT_ABOUT[supervision.cause]
    if asked is not None and supervision.cause in {Cause.STOPPED, Cause.KILLED}:
        reason = asked
    return Outcome(reason=reason, detail=supervision.detail)


def _with_memory_kills(verdict: Outcome, supervision: Supervision) -> Outcome:
    """Adds to a kill, of the trial's process or of one of its ranks, what the kernel did then."""
    kills = supervision.out_of_memory_kills
    if not kills or verdict.evidence.get("signal") != signal.SIGKILL.name:
        return verdict
    meanwhile = f"the kernel killed {kills} processes of this host for want of memory meanwhile"
    return replace(verdict, detail=f"{verdict.detail}; {meanwhile}")


def _with_disk(verdict: Outcome, supervision: Supervision) -> Outcome:
    """Adds to an end on a full disk what was free, what was held and what is needed."""
    if verdict.reason is not Reason.DISK:
        return verdict
    held, free = supervision.disk_bytes, supervision.free_disk_bytes
    needed = supervision.needed_disk_bytes
    detail = verdict.detail
    if free is not None:
        detail += f"; {free} bytes are free, the attempt holds {held}"
    if needed is not None:
        detail += f"; a checkpoint and the weights need at least {needed}"
    figures = {"free_disk_bytes": free, "disk_bytes": held, "needed_disk_bytes": needed}
    told = {name: str(value) for name, value in figures.items() if value is not None}
    return replace(verdict, detail=detail, evidence={**verdict.evidence, **told})


def _crowded_out(verdict: Outcome, supervision: Supervision) -> Outcome:
    """Lays an end for want of device memory to the machine where others had taken it."""
    if verdict.reason is not Reason.DEVICE_MEMORY or supervision.crowding is None:
        return verdict
    detail = f"{verdict.detail}; {supervision.crowding}"
    return replace(verdict, reason=Reason.FOREIGN_MEMORY, detail=detail)


def _by_status(said: Outcome | None, status: int | None) -> Outcome:
    if status == ExitStatus.DISK_FULL:
        return Outcome(reason=Reason.DISK, detail="the disk was too full to write its events")
    if said is None and status == ExitStatus.ORDERLY:
        return Outcome(reason=Reason.RESULT_MISSING, detail="exited with 0 and said no outcome")
    if said is None:
        detail = f"exited with status {status} and said no outcome"
        return Outcome(reason=Reason.CODE_ERROR, detail=detail)
    if said.kind in {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}:
        detail = f"said {said.reason}, but exited with status {status}"
        return Outcome(reason=Reason.CODE_ERROR, detail=detail)
    return said


def _evidence(statement: Statement, supervision: Supervision) -> dict[str, str]:
    number = supervision.signal
    facts = {
        "cause": str(supervision.cause),
        "exit_status": supervision.exit_status,
        "signal": None if number is None else signal_name(number),
        "window": statement.window,
        "last_finite_loss": statement.last_finite_loss,
        "peak_memory_bytes": supervision.peak_memory_bytes,
        "peak_device_memory_bytes": supervision.peak_device_memory_bytes,
        "wall_seconds": round(supervision.wall_seconds, 3),
        "leftovers": supervision.leftovers or None,
        MEMORY_LEFT: supervision.memory_left,
        "stderr_tail": supervision.stderr_tail or None,
    }
    return {name: str(value) for name, value in facts.items() if value is not None}
