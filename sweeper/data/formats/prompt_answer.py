"""Records with a prompt and an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sweeper.data.formats.format import Parsed, text_of
from sweeper.data.options import FieldNames
from sweeper.data.record import JsonValue, PromptAnswer


@dataclass(frozen=True, slots=True)
class PromptAnswerFormat:
    """`{"prompt": "...", "answer": "..."}`, under the names that the study gives."""

    name: Literal["prompt_answer"] = "prompt_answer"

    def keys(self, fields: FieldNames) -> str:
        """See `Format`."""
        return f"`{fields.prompt}` and `{fields.answer}`"

    def recognises(self, value: Mapping[str, JsonValue], fields: FieldNames) -> bool:
        """See `Format`."""
        return fields.prompt in value and fields.answer in value

    def parse(self, value: Mapping[str, JsonValue], fields: FieldNames) -> Parsed:
        """See `Format`."""
        record = PromptAnswer(
            prompt=text_of(value, fields.prompt, "prompt"),
            answer=text_of(value, fields.answer, "answer"),
        )
        return Parsed(record=record, keys_read=frozenset({fields.prompt, fields.answer}))
