"""A table as people read it in a paper or a message: rounded, with a caption. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.report.columns import NATS, SECONDS, Column, Table
from sweeper.report.run_columns import METRIC, SECONDARY
from sweeper.selection.wording import amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell.

    Attributes:
        mark: What has to be known to read the text; beside it, raised where the form can.
    """

    text: str
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Headers and rows as text.

    Attributes:
        label: Short name, by which a document may refer to it.
        caption: What it is, in short.
        notes: The rest of the caption.
        numeric: Of each column, whether it holds numbers.
    """

    label: str
    caption: str
    headers: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


def sheet_of(table: Table, *, label: str, caption: str) -> Sheet:
    """Returns a table with its numbers rounded, empty where a value is unknown."""
    units = [f"{unit}: {', '.join(names)}" for unit, names in _by_unit(table).items()]
    notes = [f"Units. {'; '.join(units)}."] if units else []
    if any(name.startswith(METRIC) for name in table.names()):
        notes.append(f"Columns that begin with {METRIC} are the user's own: {SECONDARY}.")
    return Sheet(
        label=label,
        caption=caption,
        headers=table.names(),
        numeric=[column.kind in {"integer", "number"} for column in table.columns],
        rows=[[Cell(text=written(row, column)) for column in table.columns] for row in table.rows],
        notes=notes,
    )


def _by_unit(table: Table) -> Mapping[str, Sequence[str]]:
    """Returns the columns that have a unit, by it."""
    units = dict.fromkeys(column.unit for column in table.columns if column.unit)
    return {unit: [c.name for c in table.columns if c.unit == unit] for unit in units}


def written(row: Mapping[str, object], column: Column, *, unknown: str = "") -> str:
    """Returns a value as a person reads it; a difference to the precision of its error."""
    value = row[column.name]
    error = None if column.error is None else row[column.error]
    if isinstance(value, float) and isinstance(error, float):
        return amount(value, error)
    return value_text(value, column.unit, unknown=unknown)


def value_text(value: object, unit: str | None, *, unknown: str = "") -> str:
    """Returns a value alone: losses have four decimals, seconds one, other numbers four digits."""
    if value is None:
        return unknown
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if unit == NATS and 0.01 <= abs(value) < 1e6:
        return f"{value:.4f}"
    if unit == "target tokens":
        return f"{value:.0f}"
    return f"{value:.1f}" if unit == SECONDS and value >= 1 else f"{value:.4g}"
