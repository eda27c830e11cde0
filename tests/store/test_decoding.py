"""What stands in a column and was never recorded there: refused, with its place."""

from __future__ import annotations

import pytest
from sqlalchemy import Boolean, Column, Double, Integer, Text

from sweeper.errors import StoreError
from sweeper.records import Reason
from sweeper.store.decoding import (
    checked,
    decoded,
    decoded_or_none,
    json_integers,
    json_object,
    json_texts,
    json_texts_by_name,
    reading,
)

COLUMNS = (
    Column("trial", Text),
    Column("window", Integer),
    Column("loss", Double),
    Column("ran", Boolean),
)
ROW = {"trial": "half/0", "window": 3, "loss": 1.5, "ran": True}


@pytest.mark.parametrize("changes", [{}, {"loss": 2}, {"loss": None, "window": None}])
def test_a_row_of_what_its_columns_hold_is_read_as_it_is(changes):
    assert checked([ROW | changes], COLUMNS, of="view") == [ROW | changes]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"window": "abc"}, "column window"),
        ({"loss": "low"}, "column loss"),
        ({"loss": float("inf")}, "column loss"),
        ({"loss": -1e308}, "column loss"),
        ({"ran": b"\0"}, "column ran"),
    ],
)
def test_a_value_that_its_column_cannot_have_had_is_refused_by_name(changes, told):
    with pytest.raises(StoreError) as refused:
        checked([ROW, ROW | changes], COLUMNS, of="view")

    assert str(refused.value).startswith(f"table view, trial half/0, {told}: the study")


@pytest.mark.parametrize(
    ("how", "text", "value"),
    [
        (json_object, '{"a":[1]}', {"a": [1]}),
        (json_texts_by_name, '{"a":"1"}', {"a": "1"}),
        (json_texts, '["a","b"]', ("a", "b")),
        (json_integers, "[0,1]", (0, 1)),
        (Reason, "diverged", Reason.DIVERGED),
    ],
)
def test_a_text_is_read_as_what_it_stands_for(how, text, value):
    assert decoded({"c": text}, "c", how, of="table") == value
    assert decoded_or_none({"c": None}, "c", how, of="table") is None


@pytest.mark.parametrize(
    ("how", "value"),
    [
        (json_object, "{"),
        (json_object, "[1]"),
        (json_texts_by_name, '{"a":1}'),
        (json_texts, '["a",1]'),
        (json_texts, '{"a":"b"}'),
        (json_integers, "[0,true]"),
        (json_integers, "[0.5]"),
        (Reason, "boredom"),
        (json_object, None),
        (json_object, b"{}"),
    ],
)
def test_a_text_that_stands_for_nothing_is_refused_with_both_ways_out(how, value):
    with pytest.raises(StoreError, match=r"^table t, row 1, column c: .*`sweeper audit STUDY`"):
        decoded({"c": value}, "c", how, of="t, row 1")


def test_of_a_long_text_the_beginning_is_shown():
    with pytest.raises(StoreError, match=r"\(got x{80} \.\.\.\)\. .*sweeper rebuild RUN --replace"):
        decoded({"c": "x" * 1000}, "c", json_object, of="table")


def test_what_is_made_of_recorded_values_is_read_likewise():
    with (
        pytest.raises(StoreError, match=r"^table sweeper_chain: .*\(got no frozen choice\)"),
        reading("sweeper_chain"),
    ):
        raise ValueError("no frozen choice")


def test_a_fault_of_ours_stays_one():
    with pytest.raises(AssertionError), reading("sweeper_chain"):
        raise AssertionError
