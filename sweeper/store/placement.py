"""Where the cells of a seed may run: the first attempt at any of them fixes it for all.

It does so in two steps. As soon as a cell is claimed, what is known of its slot holds for the
seed's other cells; once the attempt has reported its environment, that holds, whole. An attempt
that ended before it came so far fixes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select

from sweeper.store.claims import Owner, Wanted
from sweeper.store.plain import to_json
from sweeper.store.tables import ATTEMPT, CELL, INTERVENTION, SLOT, STUDY
from sweeper.study.same_environment import DEVICE, SOME_GPU, Difference, known_differences


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """A slot of somebody who runs the study, or did.

    Attributes:
        environment: What is known of it, under the names that trials report.
    """

    host: str
    pid: int
    started_at: str
    slot: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlace:
    """Where a seed began.

    Attributes:
        cell: Of the attempt that fixed it.
        environment: What it reported; what was known of its slot as long as it has not.
        is_reported: Whether it is what it reported.
    """

    seed: int
    cell: str
    attempt: int
    host: str
    environment: Mapping[str, str]
    is_reported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a cell is not for a slot.

    Attributes:
        differences: Between what is known of the slot and where the seed began; empty where it is
            not known yet where that was: it will be soon.
    """

    place: SeedPlace
    differences: tuple[Difference, ...] = ()

    @property
    def may_pass(self) -> bool:
        """Whether it is over once the seed's first attempt has said where it runs."""
        return not self.differences


def misfit(place: SeedPlace | None, known: Mapping[str, str], *, host: str) -> Misfit | None:
    """Returns why a cell of the seed may not start in a slot, or None where it may.

    Slots of one host that look alike are alike, so the second need not wait until the first one's
    trial has loaded. Of a slot on another host, or one whose GPU nobody can name, nobody knows.

    Args:
        place: Where the seed began; None where it has not.
        known: What is known of the slot.
        host: The slot's.
    """
    if place is None:
        return None
    if differences := known_differences(known, place.environment):
        return Misfit(place=place, differences=differences)
    both_named = _is_named(known) and _is_named(place.environment)
    if place.is_reported or (place.host == host and both_named):
        return None
    return Misfit(place=place)


def _is_named(environment: Mapping[str, str]) -> bool:
    return environment.get(DEVICE, SOME_GPU) != SOME_GPU


def seed_places(connection: Connection) -> Mapping[int, SeedPlace]:
    """Returns where each seed began that has begun, by seed."""
    left_behind = (
        select(INTERVENTION.c.number)
        .where(
            INTERVENTION.c.cell == ATTEMPT.c.cell,
            INTERVENTION.c.from_the_start,
            INTERVENTION.c.after_attempt >= ATTEMPT.c.attempt,
        )
        .exists()
    )
    is_live = CELL.c.owner == ATTEMPT.c.attempt
    query = (
        select(ATTEMPT, CELL.c.seed, SLOT.c.environment.label("known"))
        .join_from(ATTEMPT, CELL, CELL.c.cell == ATTEMPT.c.cell)
        .join(SLOT, _ran_in(), isouter=True)
        .where(or_(ATTEMPT.c.environment.is_not(None), is_live), ~left_behind)
        .order_by(ATTEMPT.c.claimed_at.desc(), CELL.c.position.desc(), ATTEMPT.c.attempt.desc())
    )
    rows = connection.execute(query).mappings()
    first = {row["seed"]: row for row in rows}  # the first attempt comes last
    return MappingProxyType(
        {
            seed: SeedPlace(
                seed=seed,
                cell=row["cell"],
                attempt=row["attempt"],
                host=row["host"],
                environment=json.loads(row["environment"] or row["known"] or "{}"),
                is_reported=row["environment"] is not None,
            )
            for seed, row in first.items()
        }
    )


def only_fitting(
    connection: Connection, wanted: Wanted, known: Mapping[str, str] | None, *, host: str
) -> Wanted:
    """Returns what is wanted, without the cells that may not start in a slot like this.

    Until the transaction ends nobody else claims: two slots at once could fix a seed twice.

    Args:
        known: What is known of the slot; None: every cell may start there.
    """
    if known is None:
        return wanted
    connection.execute(select(STUDY.c.id).with_for_update())
    unfit = unfit_cells(connection, known, host=host)
    return replace(wanted, barred=(*wanted.barred, *unfit))


def unfit_cells(connection: Connection, known: Mapping[str, str], *, host: str) -> frozenset[str]:
    """Returns the cells that may not start in a slot of which this is known."""
    places = seed_places(connection)
    seeds = [seed for seed, place in places.items() if misfit(place, known, host=host) is not None]
    query = select(CELL.c.cell).where(CELL.c.seed.in_(seeds))
    return frozenset(connection.execute(query).scalars())


def record_slots(
    connection: Connection,
    owner: Owner,
    known: Mapping[str, Mapping[str, str]],
    *,
    instead_of: Collection[SlotRecord],
) -> None:
    """Records what is known of the owner's slots, by name, and drops the slots of others."""
    for old in instead_of:
        connection.execute(delete(SLOT).where(_is(old.host, old.pid, old.started_at, old.slot)))
    for name, environment in known.items():
        key = {"host": owner.host, "pid": owner.pid, "process_started_at": owner.started_at}
        connection.execute(delete(SLOT).where(_is(owner.host, owner.pid, owner.started_at, name)))
        connection.execute(
            insert(SLOT).values(**key, slot=name, environment=to_json(dict(environment)))
        )


def read_slots(connection: Connection) -> tuple[SlotRecord, ...]:
    """Returns the slots on record, by host and name."""
    query = select(SLOT).order_by(SLOT.c.host, SLOT.c.pid, SLOT.c.slot)
    return tuple(
        SlotRecord(
            host=row.host,
            pid=row.pid,
            started_at=row.process_started_at,
            slot=row.slot,
            environment=json.loads(row.environment),
        )
        for row in connection.execute(query)
    )


def why_waiting(place: SeedPlace | None, slots: Iterable[SlotRecord]) -> str | None:
    """Returns, as a sentence, why no slot takes the seed's cells; None where one of them does."""
    there = list(slots)
    found = [misfit(place, each.environment, host=each.host) for each in there]
    misfits = [each for each in found if each is not None]
    if place is None or len(misfits) < len(found) or not found:
        return None
    began = f"its seed began with {place.cell}"
    if any(each.may_pass for each in misfits):
        return f"{began}, which has not reported yet what it runs on"
    told = [
        f"slot {slot.slot} has {_has(each.differences)}"
        for slot, each in zip(there, misfits, strict=True)
    ]
    return f"{began} on {_began_with(misfits)}; {'; '.join(told)}"


def _began_with(misfits: Sequence[Misfit]) -> str:
    told = {d.field: d.began_with for each in misfits for d in each.differences}
    return ", ".join(f"{field} {value}" for field, value in sorted(told.items()))


def _has(differences: Iterable[Difference]) -> str:
    return ", ".join(f"{each.field} {each.has}" for each in differences)


def _ran_in() -> ColumnElement[bool]:
    """The condition that a slot is an attempt's."""
    return and_(
        SLOT.c.host == ATTEMPT.c.host,
        SLOT.c.pid == ATTEMPT.c.pid,
        SLOT.c.process_started_at == ATTEMPT.c.process_started_at,
        SLOT.c.slot == ATTEMPT.c.slot,
    )


def _is(host: str, pid: int, started_at: str, slot: str) -> ColumnElement[bool]:
    return and_(
        SLOT.c.host == host,
        SLOT.c.pid == pid,
        SLOT.c.process_started_at == started_at,
        SLOT.c.slot == slot,
    )
