"""From columns to values. What cannot be read was changed or damaged, and the error says where.

SQLite keeps whatever is put into a column, and JSON, words of closed sets and times are text in
every database: that they are what we have written is not to be relied on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from sqlalchemy import ColumnElement, RowMapping

from sweeper.errors import Fault, StoreError

T = TypeVar("T")
AnyRow = Mapping[str, object] | RowMapping

_TOO_LARGE = 1e150
_LONGEST = 80
"""Characters of a value that are shown."""


def unreadable(where: str, *, got: object, expected: str | None = None) -> StoreError:
    """Returns what to raise where the database holds what nobody has recorded.

    Args:
        where: Table, row and column.
        got: What stands there.
    """
    shown = got if isinstance(got, str) else repr(got)
    return StoreError(
        Fault(
            what="the study database holds what cannot be read: it was changed or damaged",
            where=f"table {where}",
            got=shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ...",
            expected=expected,
            hint="`sweeper audit STUDY` says what else is not as it was recorded; `sweeper rebuild "
            "RUN --replace` makes the database anew from the run folder, and keeps this one",
        )
    )


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Takes a value that is not what was recorded for damage of the database.

    Around what turns recorded values into ours, and nothing else: a fault of our own in there would
    be taken for damage as well.

    Raises:
        StoreError: One was found.
    """
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise unreadable(where, got=str(error) or type(error).__name__) from error


def decoded(row: AnyRow, column: str, how: Callable[[str], T], *, of: str) -> T:
    """Returns what the text in a column stands for.

    Args:
        how: Raises ValueError, TypeError or KeyError where it stands for nothing.
        of: The table, and the row of it.

    Raises:
        StoreError: It stands for nothing.
    """
    value, where = row[column], f"{of}, column {column}"
    if not isinstance(value, str):
        raise unreadable(where, got=value, expected="a text")
    try:
        return how(value)
    except (ValueError, TypeError, KeyError) as error:
        raise unreadable(where, got=value) from error


def decoded_or_none(row: AnyRow, column: str, how: Callable[[str], T], *, of: str) -> T | None:
    """Returns the same, and None for NULL."""
    return None if row[column] is None else decoded(row, column, how, of=of)


def json_object(text: str) -> dict[str, object]:
    """Returns the JSON object in the text.

    Raises:
        ValueError: There is none.
    """
    match json.loads(text):
        case dict(found):
            return found
    raise ValueError("no object")


def json_texts_by_name(text: str) -> dict[str, str]:
    """Returns the JSON object in the text, whose values are texts.

    Raises:
        ValueError: There is none.
    """
    found = {name: str(value) for name, value in json_object(text).items()}
    if found != json_object(text):
        raise ValueError("no texts by name")
    return found


def json_texts(text: str) -> tuple[str, ...]:
    """Returns the JSON list of texts in the text.

    Raises:
        ValueError: There is none.
    """
    return tuple(_listed(text, str))


def json_integers(text: str) -> tuple[int, ...]:
    """Returns the JSON list of whole numbers in the text.

    Raises:
        ValueError: There is none.
    """
    return tuple(_listed(text, int))


def _listed(text: str, kind: type[T]) -> list[T]:
    match json.loads(text):
        case list(found) if all(type(each) is kind for each in found):
            return found
    raise ValueError(f"no list of {kind.__name__}")


def checked(
    rows: Iterable[AnyRow], columns: Iterable[ColumnElement[object]], *, of: str
) -> list[dict[str, object]]:
    """Returns the rows, in which every value is of its column's type or None.

    Args:
        of: The table.

    Raises:
        StoreError: One is not.
    """
    kinds = [(column.key or "", column.type.python_type) for column in columns]
    fitting = [(name, (float, int) if kind is float else (kind,)) for name, kind in kinds]
    found: list[dict[str, object]] = [{**row} for row in rows]
    for row in found:
        for name, types in fitting:
            value = row[name]
            if value is not None and not (isinstance(value, types) and _is_recorded(value)):
                expected = f"a value of the type {types[0].__name__}"
                raise unreadable(f"{_row(of, row)}, column {name}", got=value, expected=expected)
    return found


def _is_recorded(value: object) -> bool:
    """Whether it may have been recorded: no number that is not finite, or whose square is not."""
    return not isinstance(value, float) or abs(value) < _TOO_LARGE


def _row(table: str, row: Mapping[str, object]) -> str:
    """Returns the table and what tells the row from others."""
    return ", ".join([table, *(f"{name} {row[name]}" for name in _KEYS if row.get(name))])


_KEYS = ("cell", "trial", "attempt", "sequence")
"""Columns that say which row it is."""
