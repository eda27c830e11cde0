"""`sweeper digest`: the digest of a file's records, by which a test split can be sealed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer
from pydantic import ValidationError

from sweeper.cli.arguments import AsJson
from sweeper.cli.output import print_json, tell, write
from sweeper.data.options import FieldNames, FormatName
from sweeper.data.record import records_digest
from sweeper.data.splits import SplitSource, load_split
from sweeper.errors import Fault, UserError


def digest(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Records as JSONL or JSON.")],
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="As in data.format of a study.")
    ] = "auto",
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME=COLUMN",
            help="As in data.fields: prompt=question; may be given several times.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the digest of a file's ordered canonical records.

    It is what `data.test: {sha256: ...}` takes for test records that stay elsewhere until the
    selection is frozen. Order counts; key order, Unicode composition and white space around texts
    do not. Nothing of what a record says is printed.
    """
    source = SplitSource(
        name="records", path=file, format=_format(form), fields=_fields(fields or ())
    )
    loaded = load_split(source)
    found = records_digest(record.digest for record in loaded.records)
    if as_json:
        facts = {"sha256": found, "records": len(loaded.records), "format": loaded.format}
        print_json({"file": str(file), **facts})
        return
    write(found)
    count = "1 record" if len(loaded.records) == 1 else f"{len(loaded.records)} records"
    tell(f"{count}, format {loaded.format}. In a study file: data.test: {{sha256: {found}}}")


def _format(name: str) -> FormatName:
    known: tuple[FormatName, ...] = get_args(FormatName)
    for each in known:
        if each == name:
            return each
    expected = ", ".join(known)
    raise UserError(
        Fault(what="there is no such format", where="--format", got=name, expected=expected)
    )


def _fields(given: Sequence[str]) -> FieldNames:
    """Returns the columns' names.

    Raises:
        UserError: An entry is not NAME=COLUMN, or the name is none of ours, or given twice.
    """
    pairs = [entry.partition("=") for entry in given]
    names = [name for name, _, _ in pairs]
    expected = f"NAME=COLUMN with each NAME once, of {', '.join(FieldNames.model_fields)}"
    fault = Fault(
        what="no names of columns", where="--field", got=", ".join(given), expected=expected
    )
    if len(set(names)) < len(names) or not all(equals and column for _, equals, column in pairs):
        raise UserError(fault)
    try:
        return FieldNames.model_validate({name: column for name, _, column in pairs})
    except ValidationError:
        raise UserError(fault) from None
