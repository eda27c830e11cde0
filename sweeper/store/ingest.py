"""What an attempt reported, event by event, into tables: batched, and once.

An attempt's events have sequence numbers without a gap, and the attempt's row knows the last
one that is stored. Reading the same events again therefore changes nothing.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath

from sqlalchemy import Connection, Table, insert, select, update

from sweeper.errors import Fault, StoreError
from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
    Event,
    Phase,
    PhaseBegun,
    Resumed,
    Started,
    Update,
    encode,
)
from sweeper.store.claims import Claim, is_attempt
from sweeper.store.plain import (
    harmless,
    harmless_line,
    to_harmless_json,
    to_text,
    without_nonfinite,
)
from sweeper.store.tables import ATTEMPT, EVALUATION, NOTE, UPDATE


def store_events(connection: Connection, claim: Claim, events: Iterable[Event]) -> int:
    """Stores the events that are not stored yet; returns the last sequence number on record.

    Raises:
        StoreError: A sequence number between the last one stored and a new one is missing.
    """
    known = select(ATTEMPT.c.last_sequence, ATTEMPT.c.resumed_after_window).where(is_attempt(claim))
    row = connection.execute(known.with_for_update()).one()
    stored: int = row.last_sequence
    new = sorted((e for e in events if e.sequence > stored), key=lambda e: e.sequence)
    if not new:
        return stored
    _check_no_gap(claim, stored, new)
    _insert(connection, claim, new)
    last = new[-1].sequence
    facts = _attempt_facts(claim, new)
    if row.resumed_after_window is None:
        facts |= _beginning(claim, new)
    connection.execute(update(ATTEMPT).where(is_attempt(claim)).values(last_sequence=last, **facts))
    return last


def _check_no_gap(claim: Claim, stored: int, new: list[Event]) -> None:
    expected = range(stored + 1, stored + 1 + len(new))
    found = [event.sequence for event in new]
    if found != list(expected):
        wrong = next(f for f, e in zip(found, expected, strict=True) if f != e)
        raise StoreError(
            Fault(
                what="the events of an attempt are not numbered without a gap",
                where=f"{claim.cell}, attempt {claim.attempt}",
                got=f"sequence number {wrong}",
                expected=f"{stored + found.index(wrong) + 1}",
            )
        )


def _insert(connection: Connection, claim: Claim, events: list[Event]) -> None:
    rows: dict[Table, list[dict[str, object]]] = {UPDATE: [], EVALUATION: [], NOTE: []}
    for event in events:
        key = {
            "cell": claim.cell,
            "attempt": claim.attempt,
            "sequence": event.sequence,
            "at": to_text(event.at),
        }
        table, fields = _table_and_fields(claim, event)
        rows[table].append(key | _harmless(fields))
    for table, batch in rows.items():
        if batch:
            connection.execute(insert(table), batch)


def _table_and_fields(claim: Claim, event: Event) -> tuple[Table, dict[str, object]]:
    match event.record:
        case Update():
            return UPDATE, _fields(event.record)
        case Evaluation():
            fields = _fields(event.record)
            path = _in_run_folder(claim, event.record.per_record_path)
            named = {"grid_index": fields.pop("index"), "per_record_path": path}
            return EVALUATION, fields | named
    line = encode(event)
    return NOTE, {"kind": json.loads(line)["record"], "line": harmless_line(line)}


def _harmless(fields: dict[str, object]) -> dict[str, object]:
    """Returns the fields with their texts as they may be stored; a note's line is so already."""
    return {
        name: harmless(value) if isinstance(value, str) and name != "line" else value
        for name, value in fields.items()
    }


def _fields(record: Update | Evaluation) -> dict[str, object]:
    values = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    plain = {k: v.value if isinstance(v, StrEnum) else v for k, v in values.items()}
    return without_nonfinite(plain)


def _attempt_facts(claim: Claim, events: list[Event]) -> dict[str, object]:
    """Returns the columns of the attempt itself that its events fill in."""
    facts: dict[str, object] = {}
    for event in events:
        match event.record:
            case Started() as started:
                facts["initial_digest"] = harmless(started.initial_digest)
                facts["trainable_parameters"] = started.trainable_parameters
                facts["adapted_modules"] = to_harmless_json(started.adapted_modules)
                facts["environment"] = to_harmless_json(started.environment)
                facts["configuration"] = to_harmless_json(started.configuration)
            case PhaseBegun() as begun:
                facts |= {f"{phase}_seconds": begun.seconds.get(phase) for phase in _TIMED}
            case CheckpointMade() as made:
                facts["checkpoint_window"] = made.window
                facts["checkpoint_path"] = _in_run_folder(claim, made.path)
            case Artifact() as artifact:
                facts |= _artifact_facts(claim, artifact)
    return facts


_TIMED = (
    Phase.LOADING,
    Phase.TRAINING,
    Phase.EVALUATING,
    Phase.CHECKPOINTING,
    Phase.SAVING,
)
"""Phases whose seconds have a column; the end itself takes none."""


def _artifact_facts(claim: Claim, artifact: Artifact) -> dict[str, object]:
    path = _in_run_folder(claim, artifact.path)
    match artifact.kind:
        case "best":
            return {"best_path": path, "best_sha256": harmless(artifact.sha256)}
        case "evidence":
            return {"evidence_path": path}
    return {"adapter_path": path, "adapter_sha256": harmless(artifact.sha256)}


def _beginning(claim: Claim, events: list[Event]) -> dict[str, object]:
    """Returns which window the attempt began after, once it has gone on from, or done, anything.

    Until then it may still be about to go on from a checkpoint, and takes no history away.
    """
    for event in events:
        match event.record:
            case Resumed() as resumed:
                return {
                    "resumed_after_window": resumed.after_window,
                    "resumed_from_attempt": _earlier_maker(claim, resumed.checkpoint),
                    "resume_checkpoint": harmless(resumed.checkpoint),
                    "resume_differences": to_harmless_json(resumed.differences),
                }
            case Update() | Evaluation() | CheckpointMade():
                return {"resumed_after_window": 0}
    return {}


def maker_of(checkpoint: str) -> int | None:
    """Returns the attempt in whose folder a checkpoint is: `.../<attempt>/checkpoints/<window>`."""
    found = re.search(r"(?:^|/)(\d+)/checkpoints/[^/]+/?$", checkpoint)
    return None if found is None else int(found[1])


def _earlier_maker(claim: Claim, checkpoint: str) -> int:
    """Returns the attempt that made the checkpoint which this attempt goes on from.

    Raises:
        StoreError: The path names no earlier attempt.
    """
    maker = maker_of(checkpoint)
    if maker is None or not 0 < maker < claim.attempt:
        raise StoreError(
            Fault(
                what="an attempt went on from a checkpoint of no earlier attempt",
                where=f"{claim.cell}, attempt {claim.attempt}",
                got=checkpoint,
                expected="ATTEMPT/checkpoints/WINDOW",
            )
        )
    return maker


def _in_run_folder(claim: Claim, path: str | None) -> str | None:
    """Returns a path in the attempt's folder as one in the run folder."""
    return None if path is None else harmless(str(PurePosixPath(claim.folder, path)))
