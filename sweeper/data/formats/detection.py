"""Which format a file has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweeper.data.formats.chat import ChatFormat
from sweeper.data.formats.format import Format
from sweeper.data.formats.prompt_answer import PromptAnswerFormat
from sweeper.data.formats.text import TextFormat
from sweeper.data.options import FieldNames, FormatName
from sweeper.data.problems import counted
from sweeper.data.reading import RawRecord
from sweeper.errors import DataError, Fault

FORMATS: tuple[Format, ...] = (PromptAnswerFormat(), ChatFormat(), TextFormat())
"""All formats; a new one is a file in this folder and an entry here."""


def choose_format(
    name: FormatName, records: Sequence[RawRecord], fields: FieldNames, *, where: str
) -> Format:
    """Returns the named format, or the only one whose keys the records have.

    Raises:
        DataError: `auto`, and the records have the keys of no format, or of several.
    """
    if name != "auto":
        return next(kind for kind in FORMATS if kind.name == name)
    found = [
        (kind, [record for record in records if kind.recognises(record.value, fields)])
        for kind in FORMATS
    ]
    present = [(kind, those) for kind, those in found if those]
    if len(present) == 1:
        return present[0][0]
    if present:
        raise DataError(_several(present, where))
    raise DataError(_none(records, fields, where))


def _several(present: Iterable[tuple[Format, list[RawRecord]]], where: str) -> Fault:
    seen = (
        f"{kind.name} in {counted(len(those))}, first {those[0].place}" for kind, those in present
    )
    return Fault(
        what="the records have the keys of several formats",
        where=where,
        got="; ".join(seen),
        expected="one format a file",
        hint="Say which one is meant with data.format, or part the file",
    )


def _none(records: Sequence[RawRecord], fields: FieldNames, where: str) -> Fault:
    keys = sorted({key for record in records for key in record.value})
    shown = ", ".join(f"`{key}`" for key in keys[:12]) or "no keys at all"
    wanted = "; ".join(f"{kind.keys(fields)} for {kind.name}" for kind in FORMATS)
    return Fault(
        what="no record has the keys of any format",
        where=where,
        got=shown,
        expected=wanted,
        hint="Name your columns with data.fields, e.g. {prompt: instruction, answer: output}",
    )
