"""Which format a file has."""

from __future__ import annotations

import pytest

from sweeper.data.formats.detection import choose_format
from sweeper.data.options import FieldNames, FormatName
from sweeper.data.problems import Place
from sweeper.data.reading import RawRecord
from sweeper.data.record import JsonValue
from sweeper.errors import DataError, Fault


def raw(*values: dict[str, JsonValue]) -> list[RawRecord]:
    return [
        RawRecord(place=Place(record=number, line=number), value=value)
        for number, value in enumerate(values, start=1)
    ]


def chosen(
    *values: dict[str, JsonValue], name: FormatName = "auto", fields: FieldNames | None = None
) -> str:
    return choose_format(name, raw(*values), fields or FieldNames(), where="f").name


def refused(*values: dict[str, JsonValue]) -> Fault:
    with pytest.raises(DataError) as caught:
        chosen(*values)
    return caught.value.faults[0]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"prompt": "p", "answer": "a", "source": "s"}, "prompt_answer"),
        ({"messages": []}, "chat"),
        ({"conversations": []}, "chat"),
        ({"text": "t"}, "text"),
    ],
)
def test_auto_goes_by_the_keys(value: dict[str, JsonValue], name: str) -> None:
    assert chosen(value) == name


def test_auto_goes_by_the_names_of_the_study() -> None:
    fields = FieldNames(prompt="instruction", answer="output")
    assert chosen({"instruction": "p", "output": "a"}, fields=fields) == "prompt_answer"


def test_records_without_their_keys_do_not_hide_the_format_of_the_others() -> None:
    assert chosen({"prompt": "p"}, {"prompt": "p", "answer": "a"}) == "prompt_answer"


def test_a_named_format_is_taken_whatever_the_keys() -> None:
    assert chosen({"text": "t"}, name="prompt_answer") == "prompt_answer"


def test_a_file_of_two_formats_is_refused_with_both_counts() -> None:
    fault = refused({"text": "t"}, {"messages": []}, {"text": "u"})
    assert fault.what == "the records have the keys of several formats"
    chat, text = "chat in 1 record, first record 2 (line 2)", "text in 2 records, first record 1"
    assert fault.got == f"{chat}; {text} (line 1)"


def test_keys_of_no_format_are_listed_beside_those_that_are_known() -> None:
    fault = refused({"instruction": "p", "output": "a"})
    assert fault.what == "no record has the keys of any format"
    assert fault.got == "`instruction`, `output`"
    assert fault.expected == (
        "`prompt` and `answer` for prompt_answer; `messages` or `conversations` for chat; "
        "`text` for text"
    )
