"""Plain texts."""

from __future__ import annotations

import pytest

from sweeper.data.formats.text import TextFormat
from sweeper.data.options import FieldNames
from sweeper.data.problems import BadRecord
from sweeper.data.record import PlainText


def test_a_text_is_kept_as_it_is() -> None:
    assert TextFormat().parse({"text": " t\n"}, FieldNames()).record == PlainText(text=" t\n")


def test_a_text_under_another_name_is_read() -> None:
    fields = FieldNames(text="body")
    assert TextFormat().parse({"body": "t", "text": 1}, fields).record == PlainText(text="t")


def test_a_number_is_no_text() -> None:
    with pytest.raises(BadRecord) as caught:
        TextFormat().parse({"text": 7}, FieldNames())
    assert caught.value.what == "the text is a number"
