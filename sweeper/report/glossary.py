"""Every table by name, what it is, and what its columns mean; and that as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sweeper.errors import Fault, NotFound, nearest
from sweeper.report.arm_columns import ARMS, DIFFERENCES
from sweeper.report.columns import (
    ATTEMPTS,
    EVALUATIONS,
    RECORD_LOSSES,
    TRIALS,
    UPDATES,
    Column,
    Table,
    text,
)
from sweeper.report.run_columns import COST, EXPOSURE, METRICS, SECONDARY, STABILITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One table.

    Attributes:
        caption: What it is, with its rows.
        columns: That of the factor is there under the name it has in a study of rates.
    """

    caption: str
    columns: Sequence[Column]


TABLES: Mapping[str, Described] = MappingProxyType(
    {
        "trials": Described(caption="Trials, one row per planned cell.", columns=TRIALS),
        "arms": Described(caption="Arms, one row each, the baseline included.", columns=ARMS),
        "differences": Described(
            caption="Arm - baseline, paired over seeds, one row per arm.", columns=DIFFERENCES
        ),
        "evaluations": Described(
            caption="Evaluations of the trials' histories, one row each.", columns=EVALUATIONS
        ),
        "updates": Described(
            caption="Windows of the trials' histories, one row each.", columns=UPDATES
        ),
        "exposure": Described(
            caption="Exposure, planned and realized, one row per planned cell.", columns=EXPOSURE
        ),
        "stability": Described(caption="Stability, one row per planned cell.", columns=STABILITY),
        "cost": Described(caption="Cost, one row per planned cell.", columns=COST),
        "attempts": Described(
            caption="Attempts, one row per execution of a cell, lost ones included.",
            columns=ATTEMPTS,
        ),
        "metrics": Described(caption=f"Metrics that users attached: {SECONDARY}.", columns=METRICS),
        "record_losses": Described(
            caption="Losses of single records; in Python only, from the files that trials left.",
            columns=RECORD_LOSSES,
        ),
    }
)

GLOSSARY: tuple[Column, ...] = (
    text("table", "name of the table, and of its command"),
    text("column", "name of the column"),
    text("unit", "of its values; empty for names, digests and shares"),
    text("meaning", "what it is"),
)


def glossary(table: str | None = None) -> Table:
    """Returns the columns of one table, or of all, as a table.

    Raises:
        NotFound: There is no such table.
    """
    names = [table] if table is not None else [*TABLES]
    rows = [
        {"table": name, "column": column.name, "unit": column.unit, "meaning": column.meaning}
        for name in names
        for column in described(name).columns
    ]
    return Table(rows=rows, columns=GLOSSARY)


def described(table: str) -> Described:
    """Returns what is known of a table.

    Raises:
        NotFound: There is no such table.
    """
    if table in TABLES:
        return TABLES[table]
    close = nearest(table, TABLES)
    raise NotFound(
        Fault(
            what=f"there is no table {table}",
            expected=", ".join(TABLES),
            hint=f"Did you mean {close}?" if close else None,
        )
    )


def glossary_markdown(tables: Iterable[str]) -> str:
    """Returns the glossary of these tables as sections of a page."""
    return "\n".join(_section(name, described(name)) for name in tables)


def _section(name: str, table: Described) -> str:
    rows = [f"| {c.name} | {c.unit or ''} | {c.meaning} |" for c in table.columns]
    head = [f"## {name}", "", table.caption, "", "| column | unit | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])
