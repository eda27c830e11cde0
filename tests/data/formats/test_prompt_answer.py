"""Prompt and answer: texts as they are, everything else named by its kind."""

from __future__ import annotations

import pytest

from sweeper.data.formats.prompt_answer import PromptAnswerFormat
from sweeper.data.options import FieldNames
from sweeper.data.problems import BadRecord
from sweeper.data.record import JsonValue, PromptAnswer

FORMAT = PromptAnswerFormat()


def test_texts_are_kept_with_their_white_space() -> None:
    parsed = FORMAT.parse({"prompt": " p\n", "answer": " a "}, FieldNames())
    assert parsed.record == PromptAnswer(prompt=" p\n", answer=" a ")


def test_columns_are_read_under_the_names_of_the_study() -> None:
    fields = FieldNames(prompt="instruction", answer="output")
    parsed = FORMAT.parse({"instruction": "p", "output": "a", "answer": "no"}, fields)
    assert parsed.record == PromptAnswer(prompt="p", answer="a")
    assert parsed.keys_read == {"instruction", "output"}


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"prompt": "p"}, "the answer is missing"),
        ({"prompt": "p", "answer": None}, "the answer is null"),
        ({"prompt": "p", "answer": ""}, "the answer is empty"),
        ({"prompt": "p", "answer": " \n\u00a0"}, "the answer is empty"),
        ({"prompt": "p", "answer": 7}, "the answer is a number"),
        ({"prompt": "p", "answer": 7.5}, "the answer is a number"),
        ({"prompt": "p", "answer": True}, "the answer is a boolean"),
        ({"prompt": "p", "answer": {"x": 1}}, "the answer is an object"),
        ({"prompt": "p", "answer": ["x"]}, "the answer is a list"),
        ({"answer": "a"}, "the prompt is missing"),
        ({"prompt": "", "answer": "a"}, "the prompt is empty"),
    ],
)
def test_what_is_no_text_is_refused_by_its_kind(value: dict[str, JsonValue], what: str) -> None:
    with pytest.raises(BadRecord) as caught:
        FORMAT.parse(value, FieldNames())
    assert caught.value.what == what


def test_a_column_of_another_name_is_named_in_the_message() -> None:
    with pytest.raises(BadRecord) as caught:
        FORMAT.parse({"prompt": "p", "output": 7}, FieldNames(answer="output"))
    assert caught.value.what == "the answer (key `output`) is a number"
