"""Conversations: names mapped, order decided, nothing lost on the way."""

from __future__ import annotations

import pytest

from sweeper.data.formats.chat import ROLES, ChatFormat
from sweeper.data.formats.format import Parsed
from sweeper.data.options import FieldNames
from sweeper.data.problems import BadRecord
from sweeper.data.record import Chat, JsonValue, Role

CALL: list[JsonValue] = [{"type": "function", "function": {"name": "f", "arguments": {}}}]


def parse(value: dict[str, JsonValue], **fields: str) -> Parsed:
    return ChatFormat().parse(value, FieldNames(**fields))


def messages(*turns: tuple[str, JsonValue]) -> dict[str, JsonValue]:
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def said(parsed: Parsed) -> list[tuple[Role, str]]:
    assert isinstance(parsed.record, Chat)
    return [(turn.role, turn.content) for turn in parsed.record.turns]


def refused(value: dict[str, JsonValue]) -> BadRecord:
    with pytest.raises(BadRecord) as caught:
        parse(value)
    return caught.value


def test_sharegpt_names_are_read_and_reported() -> None:
    turns: list[JsonValue] = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]
    parsed = parse({"conversations": turns})
    assert said(parsed) == [(Role.USER, "hi"), (Role.ASSISTANT, "ho")]
    assert parsed.remarks == ("role `human` is read as `user`", "role `gpt` is read as `assistant`")
    assert parsed.keys_read == {"conversations", "tools"}


def test_common_names_inside_conversations_are_read_without_a_remark() -> None:
    turns: list[JsonValue] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
    ]
    parsed = parse({"conversations": turns})
    assert said(parsed) == [(Role.USER, "hi"), (Role.ASSISTANT, "ho")]
    assert parsed.remarks == ()


def test_a_call_and_its_observation_are_an_answer_and_a_tool_turn() -> None:
    turns: list[JsonValue] = [
        {"from": "human", "value": "weather?"},
        {"from": "function_call", "value": '{"name": "weather"}'},
        {"from": "observation", "value": "rain"},
        {"from": "gpt", "value": "It rains."},
    ]
    parsed = parse({"conversations": turns, "tools": '[{"name": "weather"}]'})
    roles = [role for role, _ in said(parsed)]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert isinstance(parsed.record, Chat)
    assert parsed.record.tools == ({"name": "weather"},)


def test_an_unknown_role_is_refused_with_turn_name_and_accepted_names() -> None:
    problem = refused(messages(("user", "hi"), ("bot", "ho")))
    assert problem.what == "unknown role `bot`"
    assert problem.detail == "turn 2"
    assert problem.expected == f"one of {', '.join(ROLES)}"


def test_both_names_of_the_turns_are_refused_and_the_study_can_say_which() -> None:
    value = messages(("user", "hi"), ("assistant", "ho"))
    both = value | {"conversations": []}
    problem = refused(both)
    assert problem.what == "the record has both `messages` and `conversations`"
    assert problem.hint == "Say which one is meant with data.fields: {messages: ...}"
    assert said(parse(both, messages="messages"))[1] == (Role.ASSISTANT, "ho")


@pytest.mark.parametrize(
    ("turns", "what", "detail"),
    [
        ("uua", "a turn of the user follows one of the user", "turn 2"),
        ("a", "a turn of the assistant opens the conversation", "turn 1"),
        ("sa", "a turn of the assistant follows one of the system", "turn 2"),
        ("uasua", "a turn of the system follows one of the assistant", "turn 3"),
        ("uaa", "a turn of the assistant follows one of the assistant", "turn 3"),
        ("uta", "a turn of the tool follows one of the user", "turn 2"),
        ("s", "no turn of the assistant: nothing to learn", None),
        ("su", "no turn of the assistant: nothing to learn", None),
        ("", "no turn of the assistant: nothing to learn", None),
    ],
)
def test_an_order_that_templates_disagree_on_is_refused(
    turns: str, what: str, detail: str | None
) -> None:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    problem = refused(messages(*((names[turn], "x") for turn in turns)))
    assert (problem.what, problem.detail) == (what, detail)


@pytest.mark.parametrize("turns", ["ua", "sua", "uaua", "uatta", "uatataua"])
def test_an_order_that_templates_agree_on_is_read(turns: str) -> None:
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    assert len(said(parse(messages(*((names[turn], "x") for turn in turns))))) == len(turns)


def test_turns_after_the_last_answer_are_left_out_with_a_remark() -> None:
    parsed = parse(messages(("user", "hi"), ("assistant", "ho"), ("user", "and?")))
    assert said(parsed) == [(Role.USER, "hi"), (Role.ASSISTANT, "ho")]
    assert parsed.remarks == ("turns after the last answer are left out",)


def test_text_parts_are_joined_and_none_is_lost() -> None:
    parts: JsonValue = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    parsed = parse(messages(("user", parts), ("assistant", "ho")))
    assert said(parsed)[0] == (Role.USER, "AB")
    assert parsed.remarks == (
        "several text parts of a turn are joined without anything between them",
    )


def test_a_part_that_is_no_text_is_refused_with_its_turn_and_type() -> None:
    parts: JsonValue = [{"type": "text", "text": "A"}, {"type": "image", "url": "x"}]
    problem = refused(messages(("user", parts), ("assistant", "ho")))
    assert (problem.what, problem.detail) == ("a turn has a part of type `image`", "turn 1")


def test_null_content_is_accepted_from_an_assistant_that_calls_tools() -> None:
    value: dict[str, JsonValue] = {
        "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": None, "tool_calls": CALL},
        ]
    }
    parsed = parse(value)
    assert said(parsed)[1] == (Role.ASSISTANT, "")
    assert isinstance(parsed.record, Chat)
    assert parsed.record.turns[1].as_message()["tool_calls"] == CALL


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "the content of a turn is null"),
        (7, "the content of a turn is a number"),
        ({"text": "x"}, "the content of a turn is an object"),
        (" \n", "the content of a turn of the assistant is empty"),
        ([], "the content of a turn of the assistant is empty"),
    ],
)
def test_an_answer_without_text_is_refused(content: JsonValue, what: str) -> None:
    problem = refused(messages(("user", "hi"), ("assistant", content)))
    assert (problem.what, problem.detail) == (what, "turn 2")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"messages": "x"}, "`messages` is a text"),
        ({"messages": ["x"]}, "a turn is a text"),
        ({"messages": [{"content": "x"}]}, "the role of a turn is null"),
        ({"prompt": "x"}, "the turns are missing"),
        (
            {"messages": [{"role": "user", "from": "human", "content": "x"}]},
            "a turn has both `role` and `from`",
        ),
        (
            {"messages": [{"role": "user", "value": "y", "content": "x"}]},
            "a turn has both `content` and `value`",
        ),
        (
            messages(("user", "x"), ("assistant", "y")) | {"tools": "{"},
            "`tools` is text that is not JSON",
        ),
        (messages(("user", "x"), ("assistant", "y")) | {"tools": 7}, "`tools` is a number"),
    ],
)
def test_a_record_that_is_no_list_of_turns_is_refused(
    value: dict[str, JsonValue], what: str
) -> None:
    assert refused(value).what == what


def test_keys_of_turns_that_are_not_read_are_reported() -> None:
    value: dict[str, JsonValue] = {
        "messages": [
            {"role": "user", "content": "x", "weight": 0},
            {"role": "assistant", "content": "y", "weight": 1},
        ]
    }
    assert parse(value).remarks == ("keys of turns that were not read: `weight`",)
