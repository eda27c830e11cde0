"""A table as the page has it: its values as text, headings with their units. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.report.columns import Column, Table
from sweeper.report.sheets import Cell, Sheet, written

UNKNOWN = "-"
"""Stands where a value is unknown; never "nan", never a number."""

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownColumn:
    """One column's heading."""

    title: str
    unit: str
    is_numeric: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table as text; the first cell of a row names it.

    Attributes:
        notes: Sentences below it.
        left_out: Rows at the end that are not shown.
    """

    caption: str
    columns: Sequence[ShownColumn]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    left_out: int = 0


def shown_table(table: Table, caption: str, *, most: int | None = None) -> ShownTable:
    """Returns a table as text.

    Args:
        most: Rows that are shown at the most.
    """
    rows = table.rows if most is None else table.rows[:most]
    return ShownTable(
        caption=caption,
        columns=[
            ShownColumn(
                title=column.name.replace("_", " "),
                unit="MiB" if column.unit == "bytes" else column.unit or "",
                is_numeric=column.kind in {"integer", "number"},
            )
            for column in table.columns
        ],
        rows=[[Cell(text=_text(row, column)) for column in table.columns] for row in rows],
        left_out=len(table.rows) - len(rows),
    )


def shown_sheet(sheet: Sheet, *, without: str) -> ShownTable:
    """Returns a sheet as it is, less one note; cells that hold nothing have a dash."""
    return ShownTable(
        caption=sheet.caption,
        columns=[
            ShownColumn(title=title, unit="", is_numeric=is_numeric)
            for title, is_numeric in zip(sheet.headers, sheet.numeric, strict=True)
        ],
        rows=[[Cell(text=c.text or UNKNOWN, mark=c.mark) for c in row] for row in sheet.rows],
        notes=[note for note in sheet.notes if note != without],
    )


def _text(row: Mapping[str, object], column: Column) -> str:
    value = row[column.name]
    if column.unit == "bytes" and isinstance(value, int):
        return f"{value / _MIB:.1f}"
    return written(row, column, unknown=UNKNOWN) or UNKNOWN
