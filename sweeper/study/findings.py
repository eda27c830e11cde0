"""What pydantic finds wrong with a study file, in our words and with the file's lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sweeper.errors import Fault, nearest
from sweeper.study.document import Finding, KeyPath, Located, dotted, place
from sweeper.study.keys import Key
from sweeper.study.numerals import mirrored, repair

RATE = "training.learning_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDocument:
    """The file as it was read, with what is needed to word a fault in it."""

    file: str
    root: Located
    keys: Sequence[Key]

    def nearest_located(self, path: KeyPath) -> Located:
        """Returns the value at `path`, or the mapping that should have held it."""
        found = self.root
        for part in path:
            inner = _entry(found, part)
            if inner is None:
                return found
            found = inner
        return found

    def holds(self, path: KeyPath) -> bool:
        """Tells whether the file gives the key, were it only as `null`."""
        found: Located | None = self.root
        for part in path:
            found = _entry(found, part) if found is not None else None
        return found is not None

    def key(self, path: KeyPath) -> Key | None:
        """Returns the schema's key at `path`; for an entry of a list or mapping, that one's."""
        names = [part for part in path if isinstance(part, str)]
        for length in (len(names), len(names) - 1):
            wanted = ".".join(names[:length])
            for key in self.keys:
                if key.path == wanted:
                    return key
        return None

    def finding(
        self,
        path: KeyPath,
        what: str,
        *,
        got: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> Finding:
        """Returns a finding that says where `path` stands in the file."""
        line = self.nearest_located(path).line
        where = place(self.file, line if self.holds(path[:1]) else None, path)
        fault = Fault(what=what, where=where, got=got, expected=expected, hint=hint)
        return Finding(path=path, line=line, fault=fault)

    def written(self, path: KeyPath) -> str | None:
        """Returns the value at `path` as written, a secret in a database URL left out."""
        if not self.holds(path):
            return None
        text = self.nearest_located(path).as_written
        if dotted(path) == "run.storage" and text not in ("sqlite", "null"):
            return f"{text.partition(':')[0]}:..." if ":" in text else "..."
        return text


def schema_findings(document: StudyDocument, error: ValidationError) -> tuple[Finding, ...]:
    """Returns what pydantic found, one finding per key."""
    groups: dict[KeyPath, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        groups.setdefault(_file_path(document.root, details), []).append(details)
    return tuple(
        _finding(document, path, found)
        for path, found in groups.items()
        if not _is_explained_deeper(path, groups)
    )


def _file_path(root: Located, details: ErrorDetails) -> KeyPath:
    """Leaves out of pydantic's location what names a variant, which the file does not hold."""
    path: list[str | int] = []
    found: Located | None = root
    for position, part in enumerate(details["loc"]):
        inner = _entry(found, part) if found is not None else None
        is_missing_key = details["type"] == "missing" and position == len(details["loc"]) - 1
        if inner is not None:
            path.append(part)
            found = inner
        elif is_missing_key and isinstance(part, str):
            path.append(part)
    return tuple(path)


def _entry(located: Located, part: str | int) -> Located | None:
    match located.value:
        case dict() if isinstance(part, str):
            return located.value.get(part)
        case list() if isinstance(part, int) and part < len(located.value):
            return located.value[part]
    return None


def _is_explained_deeper(path: KeyPath, groups: Mapping[KeyPath, object]) -> bool:
    """A union reports each alternative; the one that the user meant goes furthest in."""
    return any(len(other) > len(path) and other[: len(path)] == path for other in groups if path)


def _finding(document: StudyDocument, path: KeyPath, found: list[ErrorDetails]) -> Finding:
    kinds = {details["type"] for details in found}
    if "extra_forbidden" in kinds:
        return _unknown_key(document, path)
    key = document.key(path)
    if "missing" in kinds and not document.holds(path):
        expected = key.expected if key else None
        return document.finding(path, "a required key is missing", expected=expected)
    if kinds & {"union_tag_invalid", "union_tag_not_found"}:
        return _unknown_kind(document, path)
    if "value_error" in kinds:
        return _broken_value(document, path, found)
    return _wrong_value(document, path, kinds)


def _wrong_value(document: StudyDocument, path: KeyPath, kinds: set[str]) -> Finding:
    located, key = document.nearest_located(path), document.key(path)
    return document.finding(
        path,
        _what(located, key, kinds),
        got=None if located.value is None else document.written(path),
        expected=_expected_at(key, path),
        hint=_hint(document, path, kinds),
    )


def _expected_at(key: Key | None, path: KeyPath) -> str | None:
    """Returns what the key holds, or for an entry of a list or mapping what each entry is."""
    if key is None:
        return None
    if key.path == dotted(path):
        return key.expected
    return re.split("each (?:entry|value) ", key.expected)[-1]


def _what(located: Located, key: Key | None, kinds: set[str]) -> str:
    if located.value is None or kinds & {"string_too_short", "too_short"}:
        return "nothing is given"
    if "finite_number" in kinds:
        return "not a finite number"
    if kinds & {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}:
        return "out of range"
    if kinds <= {"literal_error"}:
        return "not one of the choices"
    if key is not None and key.number is not None and not isinstance(located.value, dict | list):
        return "not a whole number" if key.number is int else "not a number"
    return "not what belongs here"


def _hint(document: StudyDocument, path: KeyPath, kinds: set[str]) -> str | None:
    located, key = document.nearest_located(path), document.key(path)
    if key is None or located.raw is None:
        return None
    if key.number is not None:
        return _number_hint(located, key)
    is_free_text = key.expected == "text" or key.path == "name"
    if is_free_text and "string_type" in kinds and located.value is not None:
        return f'Write it in quotes: "{located.raw}".'
    close = nearest(located.raw, key.expected.removeprefix("one of ").split(", "))
    return f"Did you mean {close}?" if close else None


def _number_hint(located: Located, key: Key) -> str | None:
    value = located.value
    if key.path == RATE and isinstance(value, int | float) and not isinstance(value, bool):
        return rate_hint(value)
    if isinstance(value, int) or located.raw is None:
        return None
    return repair(located.raw, quoted=located.quoted, whole=key.number is int)


_SANE_SLIP = 1e12
"""Above it nobody mistyped the sign of a rate's exponent."""


def rate_hint(rate: float) -> str | None:
    """Returns what a learning rate out of range was probably meant to be."""
    if 1 < rate < _SANE_SLIP and (meant := mirrored(rate)):
        return f"Did you mean {meant}?"
    if -1 <= rate < 0:
        return f"Did you mean {-rate:g}?"
    return None


def _broken_value(document: StudyDocument, path: KeyPath, found: list[ErrorDetails]) -> Finding:
    """Words a ValueError that an option class raised: about a scalar, or about its keys."""
    error = next(d["ctx"]["error"] for d in found if d["type"] == "value_error")
    if isinstance(document.nearest_located(path).value, dict):
        return document.finding(path, str(error))
    key = document.key(path)
    expected = key.expected if key else str(error)
    got = document.written(path)
    return document.finding(path, "not what belongs here", got=got, expected=expected)


def _unknown_kind(document: StudyDocument, path: KeyPath) -> Finding:
    parent, kind = dotted(path), (*path, "kind")
    choices = [key.variant for key in document.keys if key.path == f"{parent}.kind"]
    names = [name for name in choices if name is not None]
    expected = f"one of {', '.join(names)}"
    if not document.holds(kind):
        return document.finding(kind, "a required key is missing", expected=expected)
    got = document.written(kind) or ""
    close = nearest(got, names)
    hint = f"Did you mean {close}?" if close else None
    return document.finding(kind, "not one of the choices", got=got, expected=expected, hint=hint)


def _unknown_key(document: StudyDocument, path: KeyPath) -> Finding:
    name, parent = str(path[-1]), dotted(tuple(p for p in path[:-1] if isinstance(p, str)))
    kind = document.nearest_located((*path[:-1], "kind")).value
    siblings = [
        key.name for key in document.keys if key.parent == parent and key.variant in (None, kind)
    ]
    expected = f"one of {', '.join(siblings)}"
    hint = _unknown_key_hint(name, parent, siblings, document.keys)
    return document.finding(path, "unknown key", expected=expected, hint=hint)


def _unknown_key_hint(
    name: str, parent: str, siblings: Sequence[str], keys: Iterable[Key]
) -> str | None:
    if name in _MEASURES:
        return (
            "Selection always minimises the validation loss in nats per target token: "
            "there is no metric or direction to set."
        )
    if name.isdigit():
        return f"The decimal mark is a point: write 0.{name} if it was meant as a number."
    hints = []
    if close := nearest(name, siblings):
        hints.append(f"Did you mean `{close}`?")
    if homes := _homes(name, parent, keys):
        hints.append(f"`{name}` is valid under {homes}.")
    elif not close and (far := nearest(name, sorted({key.name for key in keys}))):
        hints.append(f"Did you mean `{far}`, which is valid under {_homes(far, parent, keys)}?")
    return " ".join(hints) or None


_MEASURES = frozenset({"metric", "objective", "direction", "goal", "mode"})


def _homes(name: str, parent: str, keys: Iterable[Key]) -> str:
    """Returns where a key of this name belongs, a variant of the same mapping included."""
    homes = dict.fromkeys(
        f"{key.parent or 'the top of the file'}{f' of kind {key.variant}' if key.variant else ''}"
        for key in keys
        if key.name == name and (key.parent != parent or key.variant)
    )
    return ", ".join(homes)
