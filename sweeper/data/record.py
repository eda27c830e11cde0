"""One training example as text, before any tokenizer has seen it, and its canonical form.

The canonical form serves digests and the search for duplicates: two records that differ only in
key order, Unicode composition or surrounding white space are equal. What is tokenised is the text
as the user wrote it.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Role(StrEnum):
    """Who speaks in a turn."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAnswer:
    """A question and the answer that is learned."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a conversation.

    Attributes:
        content: Empty when the turn only calls tools.
        details: Further keys a chat template may read, such as `tool_calls`.
    """

    role: Role
    content: str
    details: Mapping[str, JsonValue] = field(default_factory=dict)

    def as_message(self) -> dict[str, JsonValue]:
        """Returns the turn as chat templates expect it."""
        return {"role": self.role.value, "content": self.content, **self.details}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation that ends with an assistant's turn.

    Attributes:
        tools: Descriptions of the tools the assistant may call, as its template expects them.
    """

    turns: tuple[Turn, ...]
    tools: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """A text that is learned whole."""

    text: str


TextRecord = PromptAnswer | Chat | PlainText


def record_digest(record: TextRecord) -> bytes:
    """Returns the SHA-256 of the canonical record, 32 bytes."""
    return hashlib.sha256(canonical_json(_fields(record))).digest()


def records_digest(digests: Iterable[bytes]) -> str:
    """Returns the SHA-256 over records in their order, hexadecimal."""
    return hashlib.sha256(b"".join(digests)).hexdigest()


def group_digest(value: str) -> bytes:
    """Returns the SHA-256 of a value of the group column, 32 bytes."""
    return hashlib.sha256(value.encode()).digest()


def prompt_key(record: TextRecord) -> str:
    """Returns what two records share when they put the same prompt.

    For a conversation these are the user's words before the first answer, whatever the system
    turn says; for plain text it is the whole text.
    """
    match record:
        case PromptAnswer():
            return normalised_prompt(record.prompt)
        case PlainText():
            return normalised_prompt(record.text)
        case Chat():
            roles = [turn.role for turn in record.turns]
            opening = record.turns[: roles.index(Role.ASSISTANT)]
            words = [turn.content for turn in opening if turn.role is Role.USER]
            return normalised_prompt("\n".join(words))


def normalised_prompt(text: str) -> str:
    """Returns the text without regard to case, composition and the amount of white space."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return unicodedata.normalize("NFC", " ".join(folded.split()))


def canonical_json(value: JsonValue) -> bytes:
    """Returns the value as UTF-8 JSON that does not depend on key order or composition.

    Raises:
        UnicodeEncodeError: A string holds half of a surrogate pair.
    """
    text = json.dumps(
        _canonical(value),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    )
    return text.encode()


def _canonical(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value).strip()
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    if isinstance(value, dict):
        return {_normalised_key(key): _canonical(entry) for key, entry in value.items()}
    return value


def _normalised_key(key: str) -> str:
    return unicodedata.normalize("NFC", key)


def _fields(record: TextRecord) -> dict[str, JsonValue]:
    match record:
        case PromptAnswer():
            return {"prompt": record.prompt, "answer": record.answer}
        case PlainText():
            return {"text": record.text}
        case Chat():
            messages: list[JsonValue] = [turn.as_message() for turn in record.turns]
            fields: dict[str, JsonValue] = {"messages": messages}
            return fields | {"tools": list(record.tools)} if record.tools else fields
