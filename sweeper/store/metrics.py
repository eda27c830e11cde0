"""Metrics of their own that users attach to trials: numbers by cell and name, with their source.

They are no evidence: nothing that judges or chooses reads them. What was attached is one entry in
the list of interventions, which says what stood there before where it was replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, delete, insert, select

from sweeper.store.engine import DatabaseTime
from sweeper.store.interventions import Intervention, record
from sweeper.store.tables import CELL, METRIC

Place = tuple[str, str]
"""A cell's id and a metric's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The file that metrics come from: its name, without a folder, and its digest."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """What attaching a file did, or would have done.

    Attributes:
        added: Places that had no value.
        unchanged: Places that had this value already; it keeps its first source.
        replaced: Places that had another value, with that.
        is_done: Whether anything was written.
    """

    added: tuple[Place, ...]
    unchanged: tuple[Place, ...]
    replaced: Mapping[Place, float]
    is_done: bool


def attach(
    connection: Connection, values: Mapping[Place, float], source: Source, *, replace: bool
) -> Attachment:
    """Adds the values; where one differs from what is there, nothing is changed unless `replace`.

    Args:
        values: Finite numbers; the cells are the study's.
    """
    known = {(row.cell, row.name): row.value for row in connection.execute(select(METRIC))}
    other = {
        place: known[place] for place in values if known.get(place, values[place]) != values[place]
    }
    found = Attachment(
        added=tuple(place for place in values if place not in known),
        unchanged=tuple(place for place in values if known.get(place) == values[place]),
        replaced=other,
        is_done=not other or replace,
    )
    changed = (*found.added, *found.replaced)
    if not found.is_done or not changed:
        return found
    at = connection.execute(select(DatabaseTime())).scalar_one()
    put(connection, [(*place, values[place]) for place in changed], source, at=at)
    detail = {
        "at": at,
        "source": source.name,
        "sha256": source.sha256,
        "values": [[*place, values[place]] for place in changed],
        "before": [[*place, value] for place, value in other.items()],
    }
    record(connection, Intervention.ATTACH, detail=detail)
    return found


def put(
    connection: Connection,
    values: list[tuple[str, str, float]],
    source: Source,
    *,
    at: str,
) -> None:
    """Writes values over what is there.

    Args:
        at: When they were attached.
    """
    for cell, name, value in values:
        place = and_(METRIC.c.cell == cell, METRIC.c.name == name)
        connection.execute(delete(METRIC).where(place))
        connection.execute(
            insert(METRIC).values(
                cell=cell,
                name=name,
                value=value,
                source=source.name,
                source_sha256=source.sha256,
                at=at,
            )
        )


def metrics(connection: Connection) -> list[dict[str, object]]:
    """Returns every metric, trials in plan order, the metrics of each by name."""
    query = (
        select(
            CELL.c.cell.label("trial"),
            CELL.c.arm,
            CELL.c.seed,
            METRIC.c.name.label("metric"),
            METRIC.c.value,
            METRIC.c.source,
            METRIC.c.source_sha256,
            METRIC.c.at,
        )
        .join_from(CELL, METRIC, METRIC.c.cell == CELL.c.cell)
        .order_by(CELL.c.position, METRIC.c.name)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
