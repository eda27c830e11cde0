"""From a file's bytes to JSON objects with their places: framing only, no formats.

The form is read from the content: a file that begins with `[` is one JSON array, anything else is
one JSON object a line, whatever the file is called. Blank lines are skipped, and lines in
messages stay the physical ones. Nothing is repaired and nothing is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from sweeper.data.placeholders import ACCEPTED, other_format, placeholder
from sweeper.data.problems import BadRecord, Place, Tally
from sweeper.data.record import JsonValue, canonical_json
from sweeper.errors import DataError, Fault

_BLANK = " \t\r\n\ufeff"
_BETWEEN = re.compile(r"[ \t\r\n]*")
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (dict, "an object"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was when it was read."""

    path: Path
    size_bytes: int
    modified_ns: int
    sha256: str
    form: Literal["JSONL", "JSON array"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """One JSON object and where it stands."""

    place: Place
    value: dict[str, JsonValue]


def read_file(path: Path) -> tuple[SourceFile, list[RawRecord]]:
    """Returns every record of a file.

    Raises:
        DataError: The file is missing, is something else, or holds a record that is not whole;
            all such records are named in one go.
    """
    content, size_bytes, modified_ns = _content(path)
    strange = placeholder(content) or other_format(content, path.name)
    if strange:
        what, hint = strange
        raise DataError(Fault(what=what, where=str(path), expected=ACCEPTED, hint=hint))
    text = _decoded(content, path)
    is_array = text.lstrip(_BLANK).startswith("[")
    tally = Tally()
    records = list(_from_array(text, tally) if is_array else _from_lines(text, tally))
    faults = tally.faults(str(path))
    if faults and not is_array and _is_one_object(text):
        what = "the file holds one JSON object over several lines, not a list of records"
        raise DataError(Fault(what=what, where=str(path), expected=ACCEPTED))
    if faults:
        raise DataError(*faults)
    if not records:
        raise DataError(Fault(what="the file holds no records", where=str(path)))
    source = SourceFile(
        path=path,
        size_bytes=size_bytes,
        modified_ns=modified_ns,
        sha256=hashlib.sha256(content).hexdigest(),
        form="JSON array" if is_array else "JSONL",
    )
    return source, records


def kind_of(value: JsonValue) -> str:
    """Returns what a value is, for a message: `null`, `a number`, `a list`."""
    return next((name for cls, name in _KINDS if isinstance(value, cls)), "null")


def _content(path: Path) -> tuple[bytes, int, int]:
    try:
        with path.open("rb") as stream:
            stat = os.fstat(stream.fileno())
            return stream.read(), stat.st_size, stat.st_mtime_ns
    except FileNotFoundError:
        fault = Fault(what="the file does not exist", where=str(path), hint=_neighbours(path))
        raise DataError(fault) from None
    except OSError as error:
        what = f"the file cannot be read: {error.strerror}"
        raise DataError(Fault(what=what, where=str(path), expected=ACCEPTED)) from None


def _neighbours(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"There is no folder {path.parent}"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())[:5]
    return f"The folder holds: {', '.join(names)}" if names else "The folder is empty"


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        cut = error.reason == "unexpected end of data"
        raise DataError(
            Fault(
                what="the file ends inside a character, truncated?" if cut else "not UTF-8 text",
                where=f"{path}, line {line}",
                got=f"byte 0x{content[error.start]:02x} at byte offset {error.start}",
                hint="Fetch the file again" if cut else "Save the file as UTF-8",
            )
        ) from None


def _is_one_object(text: str) -> bool:
    whole = text.strip(_BLANK)
    try:
        return "\n" in whole and isinstance(_DECODER.decode(whole), dict)
    except (ValueError, RecursionError, BadRecord):
        return False


def _from_lines(text: str, tally: Tally) -> Iterator[RawRecord]:
    # Only \n ends a line: JSON strings may hold the other separators that `splitlines` knows.
    lines = [
        (number, line.strip(_BLANK))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip(_BLANK)
    ]
    for record, (number, line) in enumerate(lines, start=1):
        place = Place(record=record, line=number)
        try:
            yield _record(_parsed(line, is_last=record == len(lines)), place)
        except BadRecord as problem:
            tally.add(problem, place)


def _parsed(line: str, *, is_last: bool) -> JsonValue:
    try:
        value: JsonValue = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        if is_last and not line.endswith("}"):
            raise _truncated() from None
        if error.msg == "Extra data":
            raise BadRecord("the line holds more than one JSON value") from None
        if line.startswith("{") and error.pos >= len(line):
            raise BadRecord(
                "the JSON object does not end on its line",
                expected=ACCEPTED,
                hint="Write one object a line, or all of them as one JSON array",
            ) from None
        raise _bad_json(error.msg, f"column {error.pos + 1}") from None
    except (ValueError, RecursionError):
        raise _unreadable() from None
    return value


def _from_array(text: str, tally: Tally) -> Iterator[RawRecord]:
    position = text.index("[") + 1
    line, counted_to, record = 1, 0, 0
    while True:
        position = _skip(text, position)
        if record == 0 and text[position : position + 1] == "]":
            break
        record += 1
        line, counted_to = line + text.count("\n", counted_to, position), position
        place = Place(record=record, line=line)
        try:
            value, position = _element(text, position)
        except BadRecord as problem:
            tally.add(problem, place)
            return
        try:
            yield _record(value, place)
        except BadRecord as problem:
            tally.add(problem, place)
        position = _skip(text, position)
        if text[position] == "]":
            break
        position += 1
    if text[position + 1 :].strip(_BLANK):
        after = Place(record=record, line=text.count("\n", 0, position) + 1)
        tally.add(BadRecord("something follows the end of the JSON array"), after)


def _element(text: str, position: int) -> tuple[JsonValue, int]:
    """Returns one value of an array and where it ends: at a `,` or the closing bracket."""
    try:
        value, end = _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or not text.rstrip().endswith("]"):
            raise _truncated() from None
        raise _bad_json(error.msg, f"line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise _unreadable() from None
    follows = text[_skip(text, end) : _skip(text, end) + 1]
    if not follows:
        raise _truncated()
    if follows not in ",]":
        raise BadRecord("a comma is missing after the record")
    return value, end


def _skip(text: str, position: int) -> int:
    match = _BETWEEN.match(text, position)
    assert match is not None
    return match.end()


def _truncated() -> BadRecord:
    return BadRecord("incomplete record, file truncated?", hint="Fetch or write the file again")


def _bad_json(message: str, detail: str) -> BadRecord:
    return BadRecord(f"not valid JSON: {message[0].lower()}{message[1:]}", detail=detail)


def _unreadable() -> BadRecord:
    return BadRecord("the record is nested too deep, or holds a number of too many digits")


def _record(value: JsonValue, place: Place) -> RawRecord:
    if not isinstance(value, dict):
        raise BadRecord(f"the record is {kind_of(value)}", expected="a JSON object")
    try:
        canonical_json(value)
    except UnicodeEncodeError:
        raise BadRecord(
            "the record holds half of a surrogate pair, which is no text",
            hint=r"Write characters beyond \uffff as a pair of escapes, or as UTF-8",
        ) from None
    except ValueError:
        raise BadRecord("the record holds a number beyond the range of floats") from None
    return RawRecord(place=place, value=value)


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadRecord(f"the key `{twice}` is given twice", hint="Keep one of them")
    return value


def _no_number(name: str) -> NoReturn:
    raise BadRecord(f"the value {name} is not JSON", expected="a finite number or text")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
