"""Values on their way into columns."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

from sweeper.store.plain import storable, to_json, to_text, to_time, without_nonfinite


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
