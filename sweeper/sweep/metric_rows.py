"""The rows of a file that a user wrote, as they are written: CSV, JSON, JSON Lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.errors import DataError, Fault

_SHOWN = 40
"""Characters of a cell that a message shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRow:
    """One row as it is written; None where a cell is empty.

    Attributes:
        is_text: Whether numbers are written as text, because the format has nothing else.
    """

    where: str
    cells: Mapping[str, object]
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTable:
    """What a file holds.

    Attributes:
        names: Those of the header, or of all objects.
        where: Where these stand.
        faults: Rows that are none, and are left out.
    """

    names: Sequence[str]
    where: str
    rows: Sequence[WrittenRow]
    faults: Sequence[Fault] = ()


def read_rows(file: Path, content: bytes) -> WrittenTable:
    """Returns what the file holds.

    Raises:
        DataError: Its name does not say what it holds, or it is not that.
    """
    return _reader(file)(file, content)


_Read = Callable[[Path, bytes], WrittenTable]


def _reader(file: Path) -> _Read:
    readers: Mapping[str, _Read] = {
        ".csv": _read_csv,
        ".json": _read_json,
        ".jsonl": _read_json_lines,
        ".parquet": _read_parquet,
    }
    found = readers.get(file.suffix.lower())
    if found is None:
        raise DataError(
            Fault(
                what="the name of a file of metrics says what it holds",
                where=str(file),
                got=file.suffix or "no ending",
                expected=", ".join(readers),
            )
        )
    return found


def _read_csv(file: Path, content: bytes) -> WrittenTable:
    lines = csv.reader(io.StringIO(_text(file, content), newline=""), strict=True)
    rows: list[WrittenRow] = []
    faults: list[Fault] = []
    names: list[str] | None = None
    before = 0
    try:
        for cells in lines:
            where, before = f"{file}:{before + 1}", lines.line_num
            if not cells:
                continue
            if names is None:
                names = [name.strip() for name in cells]
            elif len(cells) != len(names):
                what, got = "a row has another number of cells than the header", str(len(cells))
                faults.append(Fault(what=what, where=where, got=got, expected=str(len(names))))
            else:
                stripped = [cell.strip() or None for cell in cells]
                named = dict(zip(names, stripped, strict=True))
                rows.append(WrittenRow(where=where, cells=named, is_text=True))
    except csv.Error as error:
        faults.append(Fault(what=f"not CSV: {error}", where=f"{file}:{before + 1}"))
    return WrittenTable(names=names or [], where=f"{file}:1", rows=rows, faults=faults)


def _read_json(file: Path, content: bytes) -> WrittenTable:
    """Reads a list of objects."""
    text = _text(file, content)
    entries = _json(file, text, 1)
    if not isinstance(entries, list):
        what = "not a list of objects, each with a trial and its metrics"
        raise DataError(Fault(what=what, where=f"{file}:1", got=shown(entries)))
    return _of_objects(file, list(zip(_lines_of(text), entries, strict=True)))


def _read_json_lines(file: Path, content: bytes) -> WrittenTable:
    """Reads an object a line."""
    lines = enumerate(_text(file, content).split("\n"), start=1)
    entries = [(number, _json(file, line, number)) for number, line in lines if line.strip()]
    return _of_objects(file, entries)


def _json(file: Path, text: str, line: int) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        where = f"{file}:{line + error.lineno - 1}"
        raise DataError(Fault(what=f"not JSON: {error.msg}", where=where)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(Fault(what=f"not JSON: {error}", where=f"{file}:{line}")) from error


def _lines_of(text: str) -> Iterator[int]:
    """Yields the line on which each entry of a list that is known to be JSON begins."""
    decoder, line, before, place = json.JSONDecoder(), 1, 0, text.index("[") + 1
    while (entry := _ENTRY.search(text, place)) is not None and entry.group() != "]":
        line, before = line + text.count("\n", before, entry.start()), entry.start()
        yield line
        _, place = decoder.raw_decode(text, entry.start())


_ENTRY = re.compile(r"[^\s,]")


def _of_objects(file: Path, entries: Sequence[tuple[int, object]]) -> WrittenTable:
    faults = [
        Fault(what="a row is an object", where=f"{file}:{line}", got=shown(entry))
        for line, entry in entries
        if not isinstance(entry, dict)
    ]
    rows = [
        WrittenRow(where=f"{file}:{line}", cells=entry)
        for line, entry in entries
        if isinstance(entry, dict)
    ]
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    return WrittenTable(names=names, where=str(file), rows=rows, faults=faults)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"the key {repeated!r} stands twice in one object")
    return dict(pairs)


def _read_parquet(file: Path, content: bytes) -> WrittenTable:
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise DataError(Fault(what=f"not Parquet: {error}"[:300], where=str(file))) from error
    names = list(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    rows = [
        WrittenRow(where=f"{file}, row {number}", cells=dict(zip(names, cells, strict=True)))
        for number, cells in enumerate(zip(*columns, strict=True), start=1)
    ]
    return WrittenTable(names=names, where=str(file), rows=rows)


def _text(file: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what, hint = f"not UTF-8 at byte {error.start}", "Save the file as UTF-8"
        raise DataError(Fault(what=what, where=f"{file}:{line}", hint=hint)) from error


def shown(value: object) -> str:
    """Returns what a cell holds, cut where it is long."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
