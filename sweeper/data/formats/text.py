"""Records that are one text, learned whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sweeper.data.formats.format import Parsed, text_of
from sweeper.data.options import FieldNames
from sweeper.data.record import JsonValue, PlainText


@dataclass(frozen=True, slots=True)
class TextFormat:
    """`{"text": "..."}`, under the name that the study gives."""

    name: Literal["text"] = "text"

    def keys(self, fields: FieldNames) -> str:
        """See `Format`."""
        return f"`{fields.text}`"

    def recognises(self, value: Mapping[str, JsonValue], fields: FieldNames) -> bool:
        """See `Format`."""
        return fields.text in value

    def parse(self, value: Mapping[str, JsonValue], fields: FieldNames) -> Parsed:
        """See `Format`."""
        record = PlainText(text=text_of(value, fields.text, "text"))
        return Parsed(record=record, keys_read=frozenset({fields.text}))
