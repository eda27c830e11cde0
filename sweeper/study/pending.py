"""Keys that the study file has and that do nothing yet.

A key whose capability is not built is accepted at its documented default or null only; another
value would be ignored without a word. When a capability is built, its line here goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sweeper.study.document import Finding, Located, Plain
from sweeper.study.findings import StudyDocument
from sweeper.study.schema import Study

NOT_YET = "not yet in effect"

_WHOLE_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "run.trackers": "outside trackers",
    }
)
"""Keys without any effect, and what they would be for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """A key that the file gives, at its default, and that has no effect so far."""

    key: str
    written: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """A value, of a key that does have an effect, which is not built yet."""

    path: tuple[str, ...]
    is_missing: Callable[[Plain], bool]
    capability: str
    expected: str


def not_yet_in_effect(document: StudyDocument) -> tuple[NotYet, ...]:
    """Returns the given keys that have no effect, in the order of the list above."""
    return tuple(
        NotYet(
            key=key, written=_shown(document.nearest_located(path).plain()), capability=capability
        )
        for key, capability in _WHOLE_KEYS.items()
        if document.holds(path := tuple(key.split(".")))
    )


def without_null_pending(document: StudyDocument) -> Plain:
    """Returns the file's values, keys that do nothing yet left out where they are null."""
    return _without_null(document.root, "")


def _without_null(located: Located, path: str) -> Plain:
    if not isinstance(located.value, dict):
        return located.plain()
    entries = {(f"{path}.{key}" if path else key, key): e for key, e in located.value.items()}
    return {
        key: _without_null(entry, full)
        for (full, key), entry in entries.items()
        if not (full in _WHOLE_KEYS and entry.value is None)
    }


def pending_findings(study: Study, document: StudyDocument) -> tuple[Finding, ...]:
    """Returns what the study asks for and sweeper cannot do yet."""
    values = study.model_dump(mode="json")
    return (*_whole_keys(values, document), *_single_values(values, document))


def _whole_keys(values: Plain, document: StudyDocument) -> Iterator[Finding]:
    defaults = {key.path: key.default for key in document.keys}
    for name, capability in _WHOLE_KEYS.items():
        path = tuple(name.split("."))
        default = defaults[name]
        if document.holds(path) and _at(values, path) not in (default, None):
            yield document.finding(
                path,
                f"{NOT_YET}: {capability}",
                got=document.written(path),
                expected=f"{_shown(default)}, the default",
                hint="Leave the key out.",
            )


def _single_values(values: Plain, document: StudyDocument) -> Iterator[Finding]:
    for value in _VALUES:
        if value.is_missing(_at(values, value.path)):
            yield document.finding(
                value.path,
                f"{NOT_YET}: {value.capability}",
                got=document.written(value.path),
                expected=value.expected,
            )


def _at(values: Plain, path: tuple[str, ...]) -> Plain:
    """Returns the plain value at `path`; None where a mapping on the way is left out."""
    for part in path:
        if not isinstance(values, dict):
            return None
        values = values.get(part)
    return values


def _shown(value: Plain) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{key}: {_shown(entry)}" for key, entry in value.items()) + "}"
    return str(value)


def _is(*missing: Plain) -> Callable[[Plain], bool]:
    return lambda value: value in missing


def _is_not(*built: Plain) -> Callable[[Plain], bool]:
    return lambda value: value not in built


_TABLE_SUFFIX = re.compile(r"\.(csv|tsv|parquet)(\.\w+)?$", re.IGNORECASE)


def _is_table(value: Plain) -> bool:
    return isinstance(value, str) and bool(_TABLE_SUFFIX.search(value))


def _data_values() -> Iterator[_Value]:
    for part in ("train", "validation", "source", "test", "retention"):
        yield _Value(
            path=("data", part, "hub"),
            is_missing=_is_not(None),
            capability="data sets from a hub",
            expected="{path: records.jsonl}",
        )
        yield _Value(
            path=("data", part, "path"),
            is_missing=_is_table,
            capability="CSV and Parquet files",
            expected="a .jsonl or .json file",
        )


_VALUES: tuple[_Value, ...] = (
    *_data_values(),
    _Value(
        path=("run", "micro_batch"),
        is_missing=_is("auto"),
        capability="`auto`, the micro-batch found by measuring",
        expected="the number of records per forward pass, for example 4",
    ),
)
