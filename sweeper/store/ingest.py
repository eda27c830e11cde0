"""What an attempt reported, event by event, into tables: batched, and once.

An attempt's events have sequence numbers without a gap, and the attempt's row knows the last
one that is stored. Reading the same events again therefore changes nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath

from sqlalchemy import Connection, Table, insert, select, update

from sweeper.errors import Fault, StoreError
from sweeper.records import Artifact, Evaluation, Event, Started, Update, encode
from sweeper.store.claims import Claim, is_attempt
from sweeper.store.plain import storable, to_json, to_text, without_nonfinite
from sweeper.store.tables import ATTEMPT, EVALUATION, NOTE, UPDATE


def store_events(connection: Connection, claim: Claim, events: Iterable[Event]) -> int:
    """Stores the events that are not stored yet; returns the last sequence number on record.

    Raises:
        StoreError: A sequence number between the last one stored and a new one is missing.
    """
    query = select(ATTEMPT.c.last_sequence).where(is_attempt(claim)).with_for_update()
    stored: int = connection.execute(query).scalar_one()
    new = sorted((e for e in events if e.sequence > stored), key=lambda e: e.sequence)
    if not new:
        return stored
    _check_no_gap(claim, stored, new)
    _insert(connection, claim, new)
    last = new[-1].sequence
    facts = _attempt_facts(claim, new)
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
        table, fields = _table_and_fields(event)
        rows[table].append(key | fields)
    for table, batch in rows.items():
        if batch:
            connection.execute(insert(table), batch)


def _table_and_fields(event: Event) -> tuple[Table, dict[str, object]]:
    match event.record:
        case Update():
            return UPDATE, _fields(event.record)
        case Evaluation():
            fields = _fields(event.record)
            return EVALUATION, {"grid_index": fields.pop("index"), **fields}
    line = encode(event)
    return NOTE, {"kind": json.loads(line)["record"], "line": storable(line)}


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
                facts["initial_digest"] = started.initial_digest
                facts["trainable_parameters"] = started.trainable_parameters
                facts["adapted_modules"] = to_json(started.adapted_modules)
                facts["environment"] = to_json(started.environment)
                facts["configuration"] = to_json(started.configuration)
            case Artifact() as artifact:
                facts["adapter_path"] = str(PurePosixPath(claim.folder, artifact.path))
                facts["adapter_sha256"] = artifact.sha256
    return facts
