"""`sweeper columns`: what the columns of the tables are called and mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, AsMarkdown
from sweeper.cli.layout import columns_of, print_columns
from sweeper.cli.output import name_next, pour, print_json
from sweeper.errors import Fault, UserError
from sweeper.report.glossary import TABLES, glossary, glossary_markdown


def columns(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="As in arms; all without it.")
    ] = None,
    as_json: AsJson = False,
    markdown: AsMarkdown = False,
) -> None:
    """Print what the columns of the tables mean.

    Each with its name, its unit and its meaning. In a study of another factor its last key stands
    in the place of learning_rate.
    """
    if as_json and markdown:
        raise UserError(Fault(what="give one of --json and --markdown"))
    found = glossary(table)
    names: Sequence[str] = [*TABLES] if table is None else [table]
    if as_json:
        print_json(found.records())
    elif markdown:
        pour(glossary_markdown(names))
    else:
        shown = [name for name in found.names() if table is None or name != "table"]
        print_columns(columns_of(found.only(shown)))
    name_next("trials" if table in {None, "record_losses"} else table, "STUDY")
