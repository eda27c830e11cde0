"""Conversations: a list of turns, each with a role and a content.

What a conversation may look like is decided here, once, before any model's template sees it:

    [system] user assistant (user assistant | tool ... assistant)*

Turns after the last answer teach nothing; they are left out and counted. Every other order is
refused. ShareGPT's names (`from`, `value`, `human`, `gpt`) are read as the common ones.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sweeper.data.formats.format import Parsed
from sweeper.data.options import FieldNames
from sweeper.data.problems import BadRecord
from sweeper.data.reading import kind_of
from sweeper.data.record import Chat, JsonValue, Role, Turn, canonical_json
from sweeper.errors import nearest

ROLES: Mapping[str, Role] = types.MappingProxyType(
    {
        "system": Role.SYSTEM,
        "developer": Role.SYSTEM,
        "user": Role.USER,
        "human": Role.USER,
        "assistant": Role.ASSISTANT,
        "gpt": Role.ASSISTANT,
        "chatgpt": Role.ASSISTANT,
        "model": Role.ASSISTANT,
        "function_call": Role.ASSISTANT,
        "tool": Role.TOOL,
        "observation": Role.TOOL,
        "function": Role.TOOL,
        "function_response": Role.TOOL,
        "funcresponse": Role.TOOL,
        "tool_response": Role.TOOL,
        "ipython": Role.TOOL,
    }
)
"""Every role name that is read, and what it stands for."""

DETAILS = frozenset({"tool_calls", "tool_call_id", "name", "reasoning_content"})
"""Further keys of a turn that are handed to the chat template."""

_MAY_FOLLOW: Mapping[Role | None, frozenset[Role]] = types.MappingProxyType(
    {
        None: frozenset({Role.SYSTEM, Role.USER}),
        Role.SYSTEM: frozenset({Role.USER}),
        Role.USER: frozenset({Role.ASSISTANT}),
        Role.ASSISTANT: frozenset({Role.USER, Role.TOOL}),
        Role.TOOL: frozenset({Role.TOOL, Role.ASSISTANT}),
    }
)


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """`{"messages": [{"role": "user", "content": "..."}, ...]}`, or `conversations`."""

    name: Literal["chat"] = "chat"

    def keys(self, fields: FieldNames) -> str:
        """See `Format`."""
        return f"`{fields.messages}`" if fields.messages else "`messages` or `conversations`"

    def recognises(self, value: Mapping[str, JsonValue], fields: FieldNames) -> bool:
        """See `Format`."""
        return any(key in value for key in _turn_keys(fields))

    def parse(self, value: Mapping[str, JsonValue], fields: FieldNames) -> Parsed:
        """See `Format`."""
        key = self._key(value, fields)
        entries = value[key]
        if not isinstance(entries, list):
            raise BadRecord(f"`{key}` is {kind_of(entries)}", expected="a list of turns")
        remarks: dict[str, None] = {}
        turns = [_turn(entry, number, remarks) for number, entry in enumerate(entries, start=1)]
        kept = _without_end(turns, remarks)
        _check_order(kept)
        chat = Chat(turns=tuple(kept), tools=_tools(value.get("tools")))
        return Parsed(record=chat, keys_read=frozenset({key, "tools"}), remarks=tuple(remarks))

    def _key(self, value: Mapping[str, JsonValue], fields: FieldNames) -> str:
        found = [key for key in _turn_keys(fields) if key in value]
        if len(found) > 1:
            raise BadRecord(
                "the record has both `messages` and `conversations`",
                hint="Say which one is meant with data.fields: {messages: ...}",
            )
        if not found:
            raise BadRecord("the turns are missing", expected=self.keys(fields))
        return found[0]


def _turn_keys(fields: FieldNames) -> tuple[str, ...]:
    return (fields.messages,) if fields.messages else ("messages", "conversations")


def _turn(entry: JsonValue, number: int, remarks: dict[str, None]) -> Turn:
    where = f"turn {number}"
    if not isinstance(entry, dict):
        raise BadRecord(f"a turn is {kind_of(entry)}", detail=where, expected="an object")
    role = _role(_either(entry, "role", "from", where), where, remarks)
    content = entry.get("content", entry.get("value"))
    if "content" in entry and "value" in entry:
        raise BadRecord("a turn has both `content` and `value`", detail=where)
    details = {key: entry[key] for key in sorted(DETAILS & entry.keys())}
    unread = sorted(entry.keys() - DETAILS - {"role", "from", "content", "value"})
    if unread:
        keys = ", ".join(f"`{key}`" for key in unread)
        remarks[f"keys of turns that were not read: {keys}"] = None
    text = _text(content, where, remarks, may_be_null=_calls_tools(role, details))
    if not text.strip() and role in {Role.USER, Role.ASSISTANT} and not _calls_tools(role, details):
        raise BadRecord(f"the content of a turn of the {role} is empty", detail=where)
    return Turn(role=role, content=text, details=details)


def _either(entry: Mapping[str, JsonValue], first: str, second: str, where: str) -> JsonValue:
    if first in entry and second in entry:
        raise BadRecord(f"a turn has both `{first}` and `{second}`", detail=where)
    return entry.get(first, entry.get(second))


def _role(name: JsonValue, where: str, remarks: dict[str, None]) -> Role:
    if not isinstance(name, str):
        raise BadRecord(f"the role of a turn is {kind_of(name)}", detail=where, expected="text")
    role = ROLES.get(name)
    if role is None:
        close = nearest(name, ROLES)
        raise BadRecord(
            f"unknown role `{name}`",
            detail=where,
            expected=f"one of {', '.join(ROLES)}",
            hint="Rename it in the file to one of these"
            + (f"; the nearest is `{close}`" if close else ""),
        )
    if name != role:
        remarks[f"role `{name}` is read as `{role}`"] = None
    return role


def _calls_tools(role: Role, details: Mapping[str, JsonValue]) -> bool:
    return role is Role.ASSISTANT and bool(details.get("tool_calls"))


def _text(content: JsonValue, where: str, remarks: dict[str, None], *, may_be_null: bool) -> str:
    if isinstance(content, str):
        return content
    if content is None and may_be_null:
        return ""
    if isinstance(content, list):
        if len(content) > 1:
            remarks["several text parts of a turn are joined without anything between them"] = None
        return "".join(_part(part, where) for part in content)
    hint = "Only a turn of the assistant that calls tools may go without" if not content else None
    what = f"the content of a turn is {kind_of(content)}"
    raise BadRecord(what, detail=where, expected="text", hint=hint)


def _part(part: JsonValue, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    text = part.get("text") if isinstance(part, dict) else None
    if kind == "text" and isinstance(text, str):
        return text
    name = f"of type `{kind}`" if isinstance(kind, str) else "without a type"
    raise BadRecord(
        f"a turn has a part {name}",
        detail=where,
        expected="parts of type `text`, each with its text",
        hint="Only text is trained on",
    )


def _without_end(turns: list[Turn], remarks: dict[str, None]) -> list[Turn]:
    """Returns the turns up to the last answer."""
    answers = [index for index, turn in enumerate(turns) if turn.role is Role.ASSISTANT]
    if not answers:
        raise BadRecord(
            "no turn of the assistant: nothing to learn", expected="at least one answer"
        )
    if answers[-1] + 1 < len(turns):
        remarks["turns after the last answer are left out"] = None
    return turns[: answers[-1] + 1]


def _check_order(turns: list[Turn]) -> None:
    before: Role | None = None
    for number, turn in enumerate(turns, start=1):
        if turn.role not in _MAY_FOLLOW[before]:
            place = "opens the conversation" if before is None else f"follows one of the {before}"
            raise BadRecord(
                f"a turn of the {turn.role} {place}",
                detail=f"turn {number}",
                expected="[system], then user and assistant in turn; tool turns after an assistant",
            )
        before = turn.role


def _tools(value: JsonValue) -> tuple[JsonValue, ...]:
    """Returns the descriptions of tools: a list, or a list written as JSON text."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
            canonical_json(value)
        except (ValueError, RecursionError):
            raise BadRecord("`tools` is text that is not JSON", expected="a list") from None
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise BadRecord(f"`tools` is {kind_of(value)}", expected="a list of descriptions")
    return tuple(value)
