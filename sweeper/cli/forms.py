"""The forms a table comes in: columns for people; JSON, CSV or Parquet for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.cli.layout import columns_of, print_columns, print_one_below_another, width_of
from sweeper.cli.output import console, print_json, tell
from sweeper.errors import Fault, RunFolderError, UserError
from sweeper.files import write_whole
from sweeper.report.columns import Table


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

    @property
    def is_for_people(self) -> bool:
        """Whether it is the table that people get who ask for nothing else."""
        return not (self.json or self.csv) and self.parquet is None and self.columns is None


def print_table(table: Table, form: Form, *, shown: Sequence[str]) -> None:
    """Prints the table in the form asked for.

    Args:
        table: With all its columns.
        form: What the user asked for.
        shown: The columns people see unless they name others, the most important first.

    Raises:
        UserError: More than one form was asked for.
        NotFound: A column does not exist.
        RunFolderError: The Parquet file cannot be written.
    """
    if sum((form.json, form.csv, form.parquet is not None)) > 1:
        raise UserError(Fault(what="give one of --json, --csv and --parquet"))
    chosen = table if form.columns is None else table.only(_names(form.columns))
    if form.json:
        print_json(chosen.records())
    elif form.csv:
        chosen.frame().to_csv(sys.stdout, index=False, lineterminator="\n")
    elif form.parquet is not None:
        write_parquet(chosen, form.parquet)
        tell(f"Wrote {form.parquet}")
    elif form.columns is None:
        print_columns(columns_of(table.only(shown)))
    else:
        _print_all(chosen)


def write_parquet(table: Table, file: Path) -> None:
    """Writes the table as Parquet; the file appears whole.

    Raises:
        RunFolderError: The file cannot be written.
    """
    content = table.frame().to_parquet(None, index=False)
    try:
        write_whole(file, content)
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the table cannot be written",
                where=str(file),
                got=error.strerror or str(error),
                hint="Name a file in a folder that exists and that you may write to",
            )
        ) from error


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",")]


def _print_all(table: Table) -> None:
    """Prints every column that was asked for, side by side only where there is room."""
    columns = columns_of(table)
    if width_of(columns) <= console().width:
        print_columns(columns)
    else:
        print_one_below_another(columns)
