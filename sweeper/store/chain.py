"""The chain in the database: appended to by the transaction that does what the entry tells.

Whoever appends holds a lock on the head until its transaction ends, so that entries of several
processes follow one another. Append last in a transaction: others wait for it with rows of theirs
locked. What an entry is and how it is sealed is in `selection.chain`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import (
    Connection,
    RowMapping,
    Table,
    and_,
    column,
    func,
    insert,
    inspect,
    select,
    table,
)

from sweeper.records import OutcomeKind
from sweeper.selection.chain import EntryKind, Link, canonical, digest_of, entry_text, link_after
from sweeper.selection.frozen import OPTUNA_ATTRIBUTE, Frozen
from sweeper.store.decoding import checked, decoded, json_object, reading
from sweeper.store.engine import DatabaseTime
from sweeper.store.plain import to_json
from sweeper.store.tables import ATTEMPT, CHAIN, EVALUATION, INTERVENTION, NOTE, SCHEMA, UPDATE


def append(connection: Connection, kind: EntryKind, facts: Mapping[str, object]) -> Link:
    """Adds an entry at the end of the chain.

    Raises:
        ValueError: A number in it is not finite.
    """
    canonical(facts)  # refuses such a number, which would become text below
    lock_head(connection)
    at: str = connection.execute(select(DatabaseTime())).scalar_one()
    link = link_after(last(connection), kind, json.loads(to_json(facts)), at=at)
    _insert(connection, [link])
    return link


def append_once(
    connection: Connection,
    kind: EntryKind,
    facts: Mapping[str, object],
    *,
    later: frozenset[str] = frozenset(),
) -> None:
    """Adds an entry, unless the chain says the same already; it does where it was restored.

    Args:
        later: Facts that entries of an earlier version do not have, and say the same without.
    """
    lock_head(connection)
    known = json.loads(to_json(facts))
    before = {name: fact for name, fact in known.items() if name not in later}
    told = (
        entry_text(kind, said, number=link.number, at=link.at) == link.entry
        for link in links(connection, kind)
        for said in (known, before)
    )
    if not any(told):
        append(connection, kind, facts)


def lock_head(connection: Connection) -> None:
    """Keeps others from appending until the transaction ends; SQLite writers are alone anyway."""
    connection.execute(select(SCHEMA.c.id).with_for_update()).all()


def links(connection: Connection, kind: EntryKind | None = None) -> tuple[Link, ...]:
    """Returns the chain, or its entries of one kind, the first one first."""
    query = select(CHAIN).order_by(CHAIN.c.number)
    if kind is not None:
        query = query.where(CHAIN.c.kind == kind.value)
    return tuple(_link(row) for row in connection.execute(query).mappings())


def last(connection: Connection, kind: EntryKind | None = None) -> Link | None:
    """Returns the last entry, or the last one of that kind; None before there is one."""
    query = select(CHAIN).order_by(CHAIN.c.number.desc()).limit(1)
    if kind is not None:
        query = query.where(CHAIN.c.kind == kind.value)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _link(row)


def frozen(connection: Connection) -> Frozen | None:
    """Returns the frozen choice, the latest one; None before there is one."""
    link = last(connection, EntryKind.SELECTION_FROZEN)
    if link is None:
        return None
    with reading(f"{CHAIN.name}, number {link.number}, column entry"):
        return Frozen.from_facts(link.facts)


def mirrored_choice(connection: Connection) -> object:
    """Returns what the Optuna study says of the choice; None where it says nothing."""
    if not inspect(connection).has_table(_OPTUNA_ATTRIBUTES.name):
        return None
    query = select(_OPTUNA_ATTRIBUTES.c.value_json).where(
        _OPTUNA_ATTRIBUTES.c.key == OPTUNA_ATTRIBUTE
    )
    text = connection.execute(query).scalar_one_or_none()
    with reading(f"{_OPTUNA_ATTRIBUTES.name}, key {OPTUNA_ATTRIBUTE}, column value_json"):
        return None if text is None else json.loads(text)


_OPTUNA_ATTRIBUTES = table("study_user_attributes", column("key"), column("value_json"))
"""Optuna's own table; there is one study in the database."""


def restore(connection: Connection, known: Sequence[Link]) -> None:
    """Fills an empty chain with entries as they were."""
    assert last(connection) is None, "nothing has been appended"
    _insert(connection, known)


# What happens to attempts and by hand, as entries.


def tell_started(connection: Connection, *, cell: str, attempt: int) -> None:
    """Adds that an attempt began."""
    append_once(connection, EntryKind.TRIAL_STARTED, {"trial": cell, "attempt": attempt})


def tell_ended(connection: Connection, *, cell: str, attempt: int) -> None:
    """Adds how an attempt ended, which is on record by now, and what its numbers are then."""
    ending = recorded_ending(connection, cell=cell, attempt=attempt)
    append_once(connection, EntryKind.TRIAL_ENDED, ending, later=_OF_THE_START)


def tell_intervention(connection: Connection, number: int) -> None:
    """Adds what a user changed by hand, which is on record by now."""
    append_once(connection, EntryKind.NOTE, recorded_interventions(connection)[number])


def recorded_interventions(connection: Connection) -> dict[int, dict[str, object]]:
    """Returns what the entries on interventions say, by number, from the record as it is now."""
    query = select(INTERVENTION).order_by(INTERVENTION.c.number)
    return {
        row["number"]: {
            "intervention": row["number"],
            "what": row["kind"],
            "trial": row["cell"],
            "after_attempt": row["after_attempt"],
            "from_the_start": row["from_the_start"],
            "detail": decoded(
                row, "detail", json_object, of=f"{INTERVENTION.name}, number {row['number']}"
            ),
        }
        for row in connection.execute(query).mappings()
    }


def recorded_ending(
    connection: Connection, *, cell: str, attempt: int, events: int | None = None
) -> dict[str, object]:
    """Returns what the entry on an attempt that has ended says, from the record as it is now.

    Args:
        events: How many of its events count; None: all that are stored.
    """
    key = and_(ATTEMPT.c.cell == cell, ATTEMPT.c.attempt == attempt)
    row = connection.execute(select(ATTEMPT).where(key)).mappings().one()
    counted = row["last_sequence"] if events is None else events
    is_complete = row["outcome"] == OutcomeKind.COMPLETED.value  # what is lost may save later
    return {
        "trial": cell,
        "attempt": attempt,
        "outcome": row["outcome"],
        "reason": row["reason"],
        "weights_sha256": row["adapter_sha256"] if is_complete else None,
        "best_sha256": row["best_sha256"] if is_complete else None,
        "events": counted,
        **_exposure(connection, cell, attempt, counted),
        "evaluations_sha256": _evaluations_digest(connection, cell, attempt, counted),
        **_start(connection, row, counted),
    }


def recorded_endings(
    connection: Connection, events: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], dict[str, object]]:
    """Returns the same of every attempt that has ended, by trial and attempt.

    Args:
        events: How many of their events count, where that is known.
    """
    key = (ATTEMPT.c.cell, ATTEMPT.c.attempt)
    rows = connection.execute(select(*key).where(ATTEMPT.c.outcome.is_not(None))).mappings().all()
    checked(rows, key, of=ATTEMPT.name)
    return {
        (row["cell"], row["attempt"]): recorded_ending(
            connection, **row, events=events.get((row["cell"], row["attempt"]))
        )
        for row in rows
    }


def _exposure(connection: Connection, cell: str, attempt: int, events: int) -> dict[str, object]:
    own = (UPDATE.c.cell == cell, UPDATE.c.attempt == attempt, UPDATE.c.sequence <= events)
    query = select(
        func.count().label("windows"),
        func.max(UPDATE.c.target_tokens_read).label("target_tokens_read"),
        func.max(UPDATE.c.target_tokens_applied).label("target_tokens_applied"),
    ).where(*own)
    return dict(connection.execute(query).mappings().one())


def _evaluations_digest(connection: Connection, cell: str, attempt: int, events: int) -> str:
    own = (
        EVALUATION.c.cell == cell,
        EVALUATION.c.attempt == attempt,
        EVALUATION.c.sequence <= events,
    )
    query = select(EVALUATION).where(*own).order_by(EVALUATION.c.sequence)
    rows = connection.execute(query).mappings()
    return digest_of({"evaluations": [_sealable(row) for row in rows]})


def _sealable(row: RowMapping) -> dict[str, object]:
    """Returns the row as JSON has it; what JSON has not was put there by others, never sealed."""
    return {str(name): value if _is_plain(value) else repr(value) for name, value in row.items()}


def _is_plain(value: object) -> bool:
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, bytes)


def _start(connection: Connection, row: RowMapping, events: int) -> dict[str, object]:
    """Returns what the attempt had reported by then of what it started from, and ran on."""
    began = _reported(connection, row, events, NOTE, "started")
    goes_on = (
        _reported(connection, row, events, UPDATE)
        or _reported(connection, row, events, EVALUATION)
        or _reported(connection, row, events, NOTE, "resumed", "checkpoint")
    )
    return {
        "initial_digest": row["initial_digest"] if began else None,
        "environment_sha256": _digest(row, "environment") if began else None,
        "configuration_sha256": _digest(row, "configuration") if began else None,
        "resume_sha256": _digest(row, *_RESUME) if goes_on else None,
    }


_OF_THE_START = frozenset(
    {"initial_digest", "environment_sha256", "configuration_sha256", "resume_sha256"}
)
_RESUME = (
    *("resumed_after_window", "resumed_from_attempt", "resume_checkpoint"),
    "resume_differences",
)


def _reported(
    connection: Connection, row: RowMapping, events: int, facts: Table, *kinds: str
) -> bool:
    """Whether one of the attempt's first events is such a fact, of one of the kinds if any."""
    own = (
        facts.c.cell == row["cell"],
        facts.c.attempt == row["attempt"],
        facts.c.sequence <= events,
    )
    query = select(func.count()).select_from(facts).where(*own)
    if kinds:
        query = query.where(facts.c.kind.in_(kinds))
    return connection.execute(query).scalar_one() > 0


def _digest(row: RowMapping, *columns: str) -> str:
    return digest_of({name: str(row[name]) for name in columns})


def _insert(connection: Connection, known: Iterable[Link]) -> None:
    rows = [
        {
            "number": link.number,
            "kind": link.kind,
            "entry": link.entry,
            "digest": link.digest,
            "at": link.at,
        }
        for link in known
    ]
    if rows:
        connection.execute(insert(CHAIN), rows)


def _link(row: RowMapping) -> Link:
    return Link(**row)
