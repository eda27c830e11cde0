"""The forms a table comes in: columns for people, JSON, CSV or Parquet for programs, or a text.

The texts are Markdown and LaTeX, for messages and papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.cli.layout import columns_of, print_columns, print_one_below_another, width_of
from sweeper.cli.output import console, pour, print_json, tell
from sweeper.errors import Fault, RunFolderError, UserError
from sweeper.files import write_whole
from sweeper.report.columns import Table
from sweeper.report.formats import csv_text, latex_text, markdown_text
from sweeper.report.glossary import described
from sweeper.report.sheets import Sheet, sheet_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form a table is asked for in; at most one of the five, else for people.

    Attributes:
        columns: Names separated by commas; None for the usual ones (all, for programs).
    """

    json: bool
    csv: bool
    parquet: Path | None
    markdown: bool
    latex: bool
    columns: str | None

    @property
    def is_for_people(self) -> bool:
        """Whether it is the table that people get who ask for nothing else."""
        return self.columns is None and not any(self.asked)

    @property
    def asked(self) -> tuple[bool, ...]:
        """Which of the five were asked for."""
        return self.json, self.csv, self.parquet is not None, self.markdown, self.latex


def print_table(
    table: Table, form: Form, *, shown: Sequence[str], name: str, sheet: Sheet | None = None
) -> None:
    """Prints the table in the form asked for.

    Args:
        table: With all its columns.
        form: What the user asked for.
        shown: The columns people see unless they name others, the most important first.
        name: Of the table, as the glossary has it.
        sheet: What Markdown and LaTeX are, unless columns are named; None: the columns shown.

    Raises:
        UserError: More than one form was asked for.
        NotFound: A column does not exist.
        RunFolderError: The Parquet file cannot be written.
    """
    if sum(form.asked) > 1:
        what = "give one of --json, --csv, --parquet, --markdown and --latex"
        raise UserError(Fault(what=what))
    chosen = table if form.columns is None else table.only(_names(form.columns))
    if form.json:
        print_json(chosen.records())
    elif form.csv:
        pour(csv_text(chosen))
    elif form.parquet is not None:
        write_parquet(chosen, form.parquet)
        tell(f"Wrote {form.parquet}")
    elif form.markdown or form.latex:
        if sheet is None or form.columns is not None:
            rounded = table.only(shown) if form.columns is None else chosen
            sheet = sheet_of(rounded, label=f"sweeper-{name}", caption=described(name).caption)
        pour(markdown_text(sheet) if form.markdown else latex_text(sheet))
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
