"""The canonical form of a record, and the prompt it shares with others."""

from __future__ import annotations

import hashlib

import pytest

from sweeper.data.record import (
    Chat,
    PlainText,
    PromptAnswer,
    Role,
    TextRecord,
    Turn,
    canonical_json,
    normalised_prompt,
    prompt_key,
    record_digest,
    records_digest,
)


def chat(*turns: tuple[Role, str]) -> Chat:
    return Chat(turns=tuple(Turn(role=role, content=content) for role, content in turns))


def test_the_digest_is_the_hash_of_sorted_json_with_trimmed_composed_text() -> None:
    expected = hashlib.sha256('{"answer":"\u00e9","prompt":"p"}'.encode()).digest()
    assert record_digest(PromptAnswer(prompt=" p\n", answer="e\u0301 ")) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PromptAnswer(prompt="p", answer="a"), PromptAnswer(prompt="p", answer="A")),
        (PromptAnswer(prompt="p", answer="a b"), PromptAnswer(prompt="p", answer="a  b")),
        (PromptAnswer(prompt="p", answer="q"), PromptAnswer(prompt="q", answer="p")),
        (PlainText(text="p"), PromptAnswer(prompt="p", answer="p")),
        (chat((Role.USER, "u")), chat((Role.ASSISTANT, "u"))),
        (
            Chat(turns=(Turn(role=Role.USER, content="u"),)),
            Chat(turns=(Turn(role=Role.USER, content="u"),), tools=({"name": "t"},)),
        ),
    ],
)
def test_records_that_say_something_else_have_other_digests(
    one: TextRecord, other: TextRecord
) -> None:
    assert record_digest(one) != record_digest(other)


def test_key_order_does_not_change_canonical_json() -> None:
    assert canonical_json({"b": [1, None], "a": {"d": 1, "c": " x "}}) == (
        b'{"a":{"c":"x","d":1},"b":[1,null]}'
    )


def test_numbers_and_texts_stay_apart() -> None:
    assert canonical_json({"a": "7"}) != canonical_json({"a": 7})


def test_the_digest_of_a_split_depends_on_the_order_of_its_records() -> None:
    one, two = bytes(32), bytes([1] * 32)
    assert records_digest([one, two]) == hashlib.sha256(one + two).hexdigest()
    assert records_digest([one, two]) != records_digest([two, one])


@pytest.mark.parametrize(
    "text", ["What is it?", "  what IS it?\n", "What\tis\n it?", "WHAT is\u00a0it?"]
)
def test_case_and_white_space_do_not_make_another_prompt(text: str) -> None:
    assert normalised_prompt(text) == "what is it?"


def test_composition_does_not_make_another_prompt() -> None:
    assert normalised_prompt("Cafe\u0301") == normalised_prompt("CAF\u00c9")


def test_the_prompt_of_a_conversation_is_what_the_user_says_before_the_first_answer() -> None:
    long = chat(
        (Role.SYSTEM, "be kind"), (Role.USER, "Hi"), (Role.ASSISTANT, "ho"), (Role.USER, "x")
    )
    assert prompt_key(long) == "hi"
    assert prompt_key(PromptAnswer(prompt="HI", answer="a")) == "hi"
    assert prompt_key(PlainText(text="Hi  there")) == "hi there"
