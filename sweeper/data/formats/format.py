"""The seam between a file's JSON objects and our records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from sweeper.data.options import FieldNames
from sweeper.data.problems import BadRecord
from sweeper.data.reading import kind_of
from sweeper.data.record import JsonValue, TextRecord

KnownFormat = Literal["prompt_answer", "chat", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A record, and what was decided in reading it.

    Attributes:
        remarks: Decisions a user should hear of, so worded that equal ones can be counted.
        keys_read: The keys that were used; all others of the object are left aside.
    """

    record: TextRecord
    keys_read: frozenset[str]
    remarks: tuple[str, ...] = ()


class Format(Protocol):
    """Reads the records of one format. Stateless."""

    @property
    def name(self) -> KnownFormat:
        """The format's name in the study file."""
        ...

    def keys(self, fields: FieldNames) -> str:
        """Returns the keys that a record of this format has, for messages."""
        ...

    def recognises(self, value: Mapping[str, JsonValue], fields: FieldNames) -> bool:
        """Returns whether the object has those keys."""
        ...

    def parse(self, value: Mapping[str, JsonValue], fields: FieldNames) -> Parsed:
        """Returns the record.

        Raises:
            BadRecord: The object is no usable record of this format.
        """
        ...


def text_of(value: Mapping[str, JsonValue], key: str, part: str) -> str:
    """Returns the text under `key`, untouched.

    Args:
        part: What the text is to us: `prompt`, `answer`.

    Raises:
        BadRecord: There is none, it is not a text, or it is only white space.
    """
    name = part if key == part else f"{part} (key `{key}`)"
    if key not in value:
        raise BadRecord(f"the {name} is missing", expected="text")
    text = value[key]
    if not isinstance(text, str):
        raise BadRecord(f"the {name} is {kind_of(text)}", expected="text", hint=_NEVER_RETYPED)
    if not text.strip():
        raise BadRecord(f"the {name} is empty", expected="text that is not only white space")
    return text


_NEVER_RETYPED = "Values are never turned into text; write it as text in the file"
