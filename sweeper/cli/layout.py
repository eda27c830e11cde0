"""Rows as text, in columns that fit the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rich.cells import cell_len
from rich.table import Table as TerminalTable

from sweeper.cli.output import console, tell
from sweeper.report.columns import Table
from sweeper.report.sheets import value_text, written
from sweeper.store.plain import readable

NAME_WIDTH = 24
"""Least number of characters before the value of a fact."""
UNKNOWN = "-"
"""Stands where a value is unknown."""
_GAP = 2
"""Spaces between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A column as it is printed: its name, how it is headed, its cells from top to bottom."""

    name: str
    header: str
    cells: Sequence[str]
    is_numeric: bool

    @property
    def width(self) -> int:
        """Characters it takes."""
        return max(map(cell_len, (*self.header.split("\n"), *self.cells)))

    def narrowed(self) -> TextColumn:
        """Returns the column with every word of its header on a line of its own."""
        header = self.name.replace("_", "_\n").replace(" ", "\n")
        return dataclasses.replace(self, header=header)


def columns_of(table: Table) -> list[TextColumn]:
    """Returns the table as text, numbers written as their units ask for."""
    return [
        TextColumn(
            name=column.name,
            header=column.name,
            cells=[readable(written(row, column, unknown=UNKNOWN)) for row in table.rows],
            is_numeric=any(_is_number(row[column.name]) for row in table.rows),
        )
        for column in table.columns
    ]


def columns_from(
    rows: Sequence[Mapping[str, object]], *, units: Mapping[str, str] = MappingProxyType({})
) -> list[TextColumn]:
    """Returns rows, which have the same keys, as text."""
    return [_column(name, [row[name] for row in rows], unit=units.get(name)) for name in rows[0]]


def fit(columns: Sequence[TextColumn], width: int) -> list[TextColumn]:
    """Returns the columns if they fit the width, else as many leading ones as do, narrowed."""
    if width_of(columns) <= width:
        return list(columns)
    shown = [column.narrowed() for column in columns]
    while len(shown) > 1 and width_of(shown) > width:
        shown.pop()
    return shown


def width_of(columns: Sequence[TextColumn]) -> int:
    """Returns the characters that the columns take side by side."""
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def print_columns(columns: Sequence[TextColumn]) -> None:
    """Prints the columns that fit, and says on standard error which do not."""
    screen = console()
    shown = fit(columns, screen.width)
    screen.print(_side_by_side(shown))
    left_out = columns[len(shown) :]
    if left_out:
        names = ", ".join(column.name for column in left_out)
        tell(f"Not shown, for want of width: {names}")


def print_one_below_another(columns: Sequence[TextColumn]) -> None:
    """Prints row by row, each value on a line of its own behind its column's name."""
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if number:
            console().print()
        print_facts({column.name: text for column, text in zip(columns, row, strict=True)})


def print_facts(facts: Mapping[str, str]) -> None:
    """Prints names with their values; long ones are not broken, so that paths can be copied."""
    width = max([NAME_WIDTH, *(len(name) + _GAP for name in facts)])
    for name, text in facts.items():
        line = f"{name:{width}}{text}".replace("\n", "\n" + " " * width)
        console().print(readable(line), soft_wrap=True)


def cell(value: object, unit: str | None = None) -> str:
    """Returns a value as a person reads it, `-` where it is unknown.

    Losses have four decimals, seconds one, other numbers four digits.
    """
    return readable(value_text(value, unit, unknown=UNKNOWN))


def _column(name: str, values: Sequence[object], *, unit: str | None = None) -> TextColumn:
    return TextColumn(
        name=name,
        header=name,
        cells=[cell(value, unit) for value in values],
        is_numeric=any(_is_number(value) for value in values),
    )


def _side_by_side(columns: Sequence[TextColumn]) -> TerminalTable:
    table = TerminalTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.header, justify="right" if column.is_numeric else "left", overflow="fold"
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
