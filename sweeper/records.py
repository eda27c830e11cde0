"""The facts a trial reports, and the lines they travel in.

A trial's child process appends one JSON line per fact to `events.jsonl`; whoever reads that
file gets the same values back. A line is an envelope (`sequence`, `at`, `record`) around the
fields of one class below. Sequence numbers start at 1 and have no gap within an attempt, so
that reading a file twice changes nothing.

JSON has no NaN: a number that is not finite travels as "nan", "inf" or "-inf" and comes back
as the float it was. Tables show it as empty; the reason beside it says why.

Owns: the closed sets (outcomes, reasons, phases) and the record classes.
Refuses to know: files, databases, models. Standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class OutcomeKind(StrEnum):
    """How a cell, or one attempt at it, ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    LIMITED = "limited"
    LOST = "lost"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why it ended; each reason belongs to exactly one outcome (see `OUTCOME_OF`)."""

    BUDGET_REACHED = "budget_reached"

    NONFINITE_LOSS = "nonfinite_loss"
    NONFINITE_GRADIENT = "nonfinite_gradient"
    NONFINITE_PARAMETER = "nonfinite_parameter"
    DIVERGED = "diverged"
    NO_UPDATES = "no_updates"
    STALLED_UPDATES = "stalled_updates"

    WALL_CLOCK = "wall_clock"
    HOST_MEMORY = "host_memory"
    DEVICE_MEMORY = "device_memory"
    DISK = "disk"

    WORKER_LOST = "worker_lost"
    KILLED = "killed"
    PREEMPTED = "preempted"
    DEVICE_ERROR = "device_error"
    HUNG = "hung"
    FOREIGN_MEMORY = "foreign_memory"

    CODE_ERROR = "code_error"
    CRASHED = "crashed"
    DATA_ERROR = "data_error"
    BUDGET_MISMATCH = "budget_mismatch"
    RESULT_MISSING = "result_missing"

    USER_CANCELLED = "user_cancelled"
    DEADLINE = "deadline"


_REASONS: Mapping[OutcomeKind, tuple[Reason, ...]] = types.MappingProxyType(
    {
        OutcomeKind.COMPLETED: (Reason.BUDGET_REACHED,),
        OutcomeKind.STOPPED: (
            Reason.NONFINITE_LOSS,
            Reason.NONFINITE_GRADIENT,
            Reason.NONFINITE_PARAMETER,
            Reason.DIVERGED,
            Reason.NO_UPDATES,
            Reason.STALLED_UPDATES,
        ),
        OutcomeKind.LIMITED: (
            Reason.WALL_CLOCK,
            Reason.HOST_MEMORY,
            Reason.DEVICE_MEMORY,
            Reason.DISK,
        ),
        OutcomeKind.LOST: (
            Reason.WORKER_LOST,
            Reason.KILLED,
            Reason.PREEMPTED,
            Reason.DEVICE_ERROR,
            Reason.HUNG,
            Reason.FOREIGN_MEMORY,
        ),
        OutcomeKind.FAILED: (
            Reason.CODE_ERROR,
            Reason.CRASHED,
            Reason.DATA_ERROR,
            Reason.BUDGET_MISMATCH,
            Reason.RESULT_MISSING,
        ),
        OutcomeKind.CANCELLED: (Reason.USER_CANCELLED, Reason.DEADLINE),
    }
)

OUTCOME_OF: Mapping[Reason, OutcomeKind] = types.MappingProxyType(
    {reason: kind for kind, reasons in _REASONS.items() for reason in reasons}
)
"""The outcome each reason belongs to."""


class Skip(StrEnum):
    """Why a window ended in no update."""

    NO_TARGETS = "no_targets"
    NONFINITE_LOSS = "nonfinite_loss"
    NONFINITE_GRADIENT = "nonfinite_gradient"
    SCALER_OVERFLOW = "scaler_overflow"


class Phase(StrEnum):
    """What a trial is busy with; limits on silence depend on it."""

    LOADING = "loading"
    EVALUATING = "evaluating"
    TRAINING = "training"
    CHECKPOINTING = "checkpointing"
    SAVING = "saving"
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What a trial starts from, before its first window.

    Attributes:
        initial_digest: SHA-256 over names, shapes and bytes of the trainable tensors.
        trainable_parameters: Number of trainable scalars.
        adapted_modules: Names of the modules an adapter was put on; empty for full tuning.
        environment: Device model, library versions, threads and the like, by field name.
        configuration: What the trial was told to do, by dotted key, values as JSON.
        scaling: By what each adapted module's product of B and A is multiplied.
        matched: Names of the modules that each of the adapter's settings means, separated by
            spaces, for instance by `lora.targets: q_proj`.
    """

    initial_digest: str
    trainable_parameters: int
    adapted_modules: tuple[str, ...]
    environment: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)
    scaling: Mapping[str, float] = field(default_factory=dict)
    matched: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegun:
    """The trial turns to another kind of work.

    Attributes:
        seconds: Monotonic seconds that this attempt has spent so far, by phase.
    """

    phase: Phase
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The trial goes on from a checkpoint; what was read after it is read again.

    Attributes:
        after_window: The last window that the checkpoint holds.
        checkpoint: Its folder, with the attempt's folder it is in.
        sha256: Digest of what it holds.
        differences: What is not as it was when the checkpoint was made, as sentences; the user
            asked to go on all the same.
    """

    after_window: int
    checkpoint: str
    sha256: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMade:
    """A state from which the trial can go on, to the bit; `path` is in the attempt's folder."""

    window: int
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One window, whether or not it ended in an update.

    Attributes:
        window: Index of the window in the plan, from 1.
        updates: Updates that have run so far, this one included.
        first_record: Position in the stream of the window's first record, from 0.
        records: Records in the window.
        record_digest: Rolling SHA-256 of the records read up to and with this window.
        target_tokens: Target tokens of this window.
        target_tokens_read: Cumulative target tokens read, this window included.
        target_tokens_applied: Cumulative target tokens of windows that ended in an update.
        input_tokens: Input tokens of this window, padding left out.
        padding_tokens: Padding positions that were computed in this window.
        learning_rate: Rate read back from the optimizer; None when no update was tried.
        loss: Sum of token losses over the window's target tokens, in nats per target token.
        gradient_norm: Global norm before clipping, with loss scaling after it was taken out; None
            when no gradient was computed.
        clipped: Whether the gradient was scaled down to the threshold.
        ran: Whether the window ended in an update.
        skip: Why it did not, when it did not.
        loss_scale: By which the loss was multiplied in this window; None without loss scaling.
        seconds: Monotonic seconds the window took.
        peak_memory_bytes: Peak memory of the process (device memory on a GPU).
    """

    window: int
    updates: int
    first_record: int
    records: int
    record_digest: str
    target_tokens: int
    target_tokens_read: int
    target_tokens_applied: int
    input_tokens: int
    padding_tokens: int
    learning_rate: float | None
    loss: float | None
    gradient_norm: float | None
    clipped: bool
    ran: bool
    skip: Skip | None
    loss_scale: float | None = None
    seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The token-weighted loss of one split at one point of the grid.

    Attributes:
        split: `validation` or `retention`.
        index: Nominal grid index; 0 is before the first update.
        window: Windows read when it was made.
        target_tokens_read: Training target tokens read when it was made.
        updates: Updates that had run.
        loss: Sum of token losses / target tokens over the whole split, nats per target token.
        target_tokens: Target tokens of the split that were scored.
        records: Records of the split that were scored.
        set_digest: SHA-256 of the ordered records that were scored.
        dtype: Precision the forward pass ran in.
        micro_batch: Records per forward pass.
        seconds: Monotonic seconds it took.
        per_record_path: Parquet file, in the attempt's folder, with each record's digest, group,
            target tokens and summed loss; None when none was written.
        per_record_sha256: Digest of that file.
    """

    split: str
    index: int
    window: int
    target_tokens_read: int
    updates: int
    loss: float
    target_tokens: int
    records: int
    set_digest: str
    dtype: str
    micro_batch: int
    seconds: float
    per_record_path: str | None = None
    per_record_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What the trial read and applied against what was planned, by name; once, at the end.

    Attributes:
        difference: The first window in which they differ, as a sentence; None when none does.
    """

    planned: Mapping[str, int]
    realized: Mapping[str, int]
    difference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stop condition that fired, with the numbers behind it."""

    reason: Reason
    detail: str
    window: int
    updates: int
    target_tokens_read: int
    last_finite_loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something worth telling that ends nothing."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file or folder the trial leaves, whole, at `path` relative to the attempt's folder.

    Attributes:
        kind: `adapter` or `model`; `best` for the weights with the lowest validation loss where the
            study keeps them; `evidence` for what a stop condition left.
        sha256: Digest over relative names and contents of every file in it.
    """

    kind: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        detail: One sentence with the numbers behind the reason.
        evidence: Further facts, by name (exit status, signal, traceback, peak memory).
    """

    reason: Reason
    detail: str
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> OutcomeKind:
        """The outcome that the reason belongs to."""
        return OUTCOME_OF[self.reason]


Record = (
    Started
    | Resumed
    | PhaseBegun
    | Update
    | Evaluation
    | CheckpointMade
    | Ledger
    | Stop
    | Notice
    | Artifact
    | Outcome
)

_NAMES: Mapping[str, type[Record]] = types.MappingProxyType(
    {
        "started": Started,
        "resumed": Resumed,
        "phase": PhaseBegun,
        "update": Update,
        "evaluation": Evaluation,
        "checkpoint": CheckpointMade,
        "ledger": Ledger,
        "stop": Stop,
        "notice": Notice,
        "artifact": Artifact,
        "outcome": Outcome,
    }
)
_NAME_OF = types.MappingProxyType({cls: name for name, cls in _NAMES.items()})


EMPTY_DIGEST = bytes(32)
"""The record digest before the first record."""


def chain_digest(before: bytes, record: bytes, target_tokens: int) -> bytes:
    """Returns the rolling digest of the records read once one more is read.

    It is SHA-256 over the digest before, the record's digest (32 bytes) and its target tokens that
    are read (8 bytes, little-endian), so that a cut record is another record than the whole one. It
    can be carried on from its value alone, and does not depend on where windows end.
    """
    return hashlib.sha256(before + record + target_tokens.to_bytes(8, "little")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record with its place in an attempt's history.

    Attributes:
        sequence: From 1, without a gap.
        at: When it was written, UTC.
    """

    sequence: int
    at: datetime
    record: Record


def encode(event: Event) -> str:
    """Returns the event as one line of JSON, without the line feed."""
    body = {name: _plain(value) for name, value in _fields(event.record).items()}
    envelope = {
        "sequence": event.sequence,
        "at": event.at.isoformat(),
        "record": _NAME_OF[type(event.record)],
    }
    return json.dumps(envelope | body, allow_nan=False, ensure_ascii=False)


def decode(line: str) -> Event:
    """Returns the event that `encode` wrote.

    Raises:
        ValueError: The line is not one of ours, for instance because it was cut.
    """
    try:
        entries = json.loads(line)
        cls = _NAMES[entries.pop("record")]
        sequence = int(entries.pop("sequence"))
        at = datetime.fromisoformat(entries.pop("at"))
        hints = typing.get_type_hints(cls)
        fields = {name: _typed(value, hints[name]) for name, value in entries.items()}
        record = cls(**fields)  # type: ignore[arg-type]  # the names and types are the line's
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an event line: {line[:200]!r}") from error
    return Event(sequence=sequence, at=at, record=record)


def _fields(record: Record) -> dict[str, object]:
    return {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _typed(value: object, hint: object) -> object:
    """Turns a JSON value back into what the field is declared to hold."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None:
        return None
    if float in options and isinstance(value, str | int | float):
        return float(value)
    if isinstance(value, list):
        return tuple(value)
    for option in options:
        if isinstance(option, type) and issubclass(option, StrEnum):
            return option(str(value))
    return value
