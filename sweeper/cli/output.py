"""How results reach standard output: a table for people, JSON, CSV or Parquet for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table as TerminalTable

from sweeper.errors import Fault, RunFolderError, UserError
from sweeper.report.columns import Table

WIDTH_OFF_TERMINAL = 240
"""Characters per line when no terminal sets them: wide enough not to fold a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form a table is asked for in; at most one of the three, else for people.

    Attributes:
        columns: Names separated by commas; None for the usual ones (all, for programs).
    """

    json: bool
    csv: bool
    parquet: Path | None
    columns: str | None


def console(stream: TextIO | None = None) -> Console:
    """Returns a console on standard output, or on `stream`.

    It obeys NO_COLOR, adds no colour off a terminal, and never fails on a character that the
    stream's encoding lacks.
    """
    target = sys.stdout if stream is None else stream
    reconfigure = getattr(target, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    width = None if target.isatty() else WIDTH_OFF_TERMINAL
    return Console(file=target, width=width, highlight=False)


def name_next(command: str) -> None:
    """Says which command comes next, on standard error so that results stay clean."""
    console(sys.stderr).print(f"Next: {command}", markup=False)


def print_table(table: Table, form: Form, *, shown: Sequence[str]) -> None:
    """Prints the table in the form asked for; `shown` are the columns people see.

    Raises:
        UserError: More than one form was asked for.
        NotFound: A column does not exist.
        RunFolderError: The Parquet file cannot be written.
    """
    if sum((form.json, form.csv, form.parquet is not None)) > 1:
        raise UserError(Fault(what="give one of --json, --csv and --parquet"))
    chosen = table if form.columns is None else table.only(form.columns.split(","))
    if form.json:
        print_json([{name: row[name] for name in chosen.names()} for row in chosen.rows])
    elif form.csv:
        chosen.frame().to_csv(sys.stdout, index=False, lineterminator="\n")
    elif form.parquet is not None:
        write_parquet(chosen.frame(), form.parquet)
        console(sys.stderr).print(f"Wrote {form.parquet}", markup=False)
    else:
        visible = chosen if form.columns is not None else chosen.only(shown)
        console().print(terminal_table(visible.rows, visible.names()))


def print_json(value: object) -> None:
    """Prints `value` as JSON; a number that is not finite would be a fault of ours."""
    print(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))  # noqa: T201


def plain(value: object) -> object:
    """Returns dataclasses, options, mappings and tuples as what JSON knows."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def write_parquet(frame: pd.DataFrame, file: Path) -> None:
    """Writes the frame as Parquet; the file appears whole.

    Raises:
        RunFolderError: The file cannot be written.
    """
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        frame.to_parquet(unfinished, index=False)
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise RunFolderError(
            Fault(
                what="the table cannot be written",
                where=str(file),
                got=error.strerror or str(error),
                hint="Name a file in a folder that exists and that you may write to",
            )
        ) from error


def terminal_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> TerminalTable:
    """Returns the rows as a terminal table with the given columns, in their order."""
    result = TerminalTable(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = any(_is_number(row[name]) for row in rows)
        result.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(*(cell(row[name]) for name in columns))
    return result


def cell(value: object) -> str:
    """Returns a value as a person reads it: losses to four decimals, `-` where unknown."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}" if 0.01 <= abs(value) < 1e6 else f"{value:.4g}"
    return str(value).replace("[", r"\[")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
