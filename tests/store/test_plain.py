"""Values on their way into columns."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from sweeper.store.plain import (
    harmless,
    harmless_line,
    storable,
    to_harmless_json,
    to_json,
    to_text,
    to_time,
    without_nonfinite,
)


def test_json_is_canonical_and_has_no_nan():
    value = {"b": (1, math.inf), "a": {"x": math.nan, "y": -math.inf}, "c": [True, None, 0.1]}

    assert to_json(value) == '{"a":{"x":"nan","y":"-inf"},"b":[1,"inf"],"c":[true,null,0.1]}'


def test_nonfinite_fields_become_none_and_are_named_in_order():
    fields = {"loss": math.nan, "gradient_norm": -math.inf, "windows": 3, "rate": 0.5}

    assert without_nonfinite(fields) == {
        "loss": None,
        "gradient_norm": None,
        "windows": 3,
        "rate": 0.5,
        "nonfinite": "gradient_norm=-inf loss=nan",
    }


def test_text_that_a_database_refuses_is_escaped():
    assert storable("a\0b \udce9 é") == "a\\x00b \\udce9 é"


def test_times_are_utc_text_and_come_back():
    moment = datetime(2026, 3, 1, 1, 30, 0, 125000, tzinfo=timezone(timedelta(hours=2)))

    assert to_text(moment) == "2026-02-28T23:30:00.125000Z"
    assert to_time(to_text(moment)) == moment
    assert to_time(to_text(moment)).tzinfo == UTC


class TestForeignText:
    def test_what_a_terminal_would_obey_is_written_out(self):
        text = "\0a\x1b[31m\x07\x9b \u202ecba \ud800 [red]<b>\tz\nend"

        assert harmless(text) == ("\\x00a\\x1b[31m\\x07\\x9b \\u202ecba \\ud800 [red]<b>\tz\nend")

    def test_a_progress_bar_s_carriage_returns_are_line_ends(self):
        assert harmless("10 %\r20 %\r\ndone") == "10 %\n20 %\ndone"

    def test_a_long_text_keeps_head_and_tail_and_says_so(self):
        text = "head" + "x" * 5_000_000 + "tail"

        kept = harmless(text, 100)

        assert len(kept) == 100
        assert kept.startswith("headx")
        assert kept.endswith("xtail")
        assert " [5000008 characters; the middle is left out] " in kept

    def test_one_that_grows_by_its_escapes_is_no_longer_than_allowed(self):
        assert len(harmless("\0" * 100, 100)) == 100

    @given(st.text(st.characters(exclude_categories=())), st.integers(60, 120))
    def test_doing_it_again_changes_nothing(self, text, longest):
        once = harmless(text, longest)

        assert len(once) <= longest
        assert harmless(once, longest) == once
        once.encode("utf-8")

    def test_it_is_harmless_in_json_too_names_included(self):
        assert to_harmless_json({"\x1b": ["\0", 1, math.nan]}) == (
            '{"\\\\x1b":["\\\\x00",1,"nan"]}'
        )

    def test_a_line_of_json_stays_one(self):
        line = harmless_line('{"record":"notice","message":"\\u001b[31m\\ud800 \x9b","n":1.5}')

        assert json.loads(line) == {
            "record": "notice",
            "message": "\\x1b[31m\\ud800 \\x9b",
            "n": 1.5,
        }
