"""A table's columns: the same names and order everywhere, each with a meaning."""

import sqlite3

import pandas as pd
import pytest

from sweeper.errors import NotFound
from sweeper.report.columns import (
    ATTEMPTS,
    EVALUATIONS,
    RECORD_LOSSES,
    TRIALS,
    UPDATES,
    Column,
    Table,
    trial_columns,
)

ALL = {
    "sweeper_trials": TRIALS,
    "sweeper_updates": UPDATES,
    "sweeper_evaluations": EVALUATIONS,
    "sweeper_attempts": ATTEMPTS,
}

LETTERS = Table(
    rows=[{"a": 1, "b": "x", "c": None}, {"a": None, "b": None, "c": 0.5}],
    columns=[
        Column(name="a", kind="integer", unit=None, meaning="first"),
        Column(name="b", kind="text", unit=None, meaning="second"),
        Column(name="c", kind="number", unit=None, meaning="third"),
    ],
)


@pytest.mark.parametrize(("view", "columns"), ALL.items(), ids=ALL)
def test_a_table_has_the_columns_of_its_view_in_their_order(begun, view, columns):
    with sqlite3.connect(begun.folder.database) as connection:
        named = [row[1] for row in connection.execute(f"PRAGMA table_info({view})")]
    connection.close()

    assert [column.name for column in columns] == named


@pytest.mark.parametrize(
    "column",
    [column for columns in (*ALL.values(), RECORD_LOSSES) for column in columns],
    ids=lambda column: column.name,
)
def test_every_column_says_what_it_means(column):
    assert len(column.meaning.split()) >= 2


def test_the_factor_s_last_key_names_the_trials_column():
    columns = trial_columns("training.records_per_update", is_text=False)

    assert [column.name for column in columns[2:5]] == ["seed", "records_per_update", "round"]
    assert columns[3].kind == "number"


def test_a_factor_of_words_has_a_text_column():
    assert trial_columns("training.precision", is_text=True)[3].kind == "text"


def test_chosen_columns_come_in_the_order_asked_for_and_once():
    assert LETTERS.only(["c", "a", "c"]).records() == [{"c": None, "a": 1}, {"c": 0.5, "a": None}]


def test_all_unknown_columns_are_refused_in_one_go_with_the_nearest_name():
    table = Table(rows=[], columns=TRIALS)

    with pytest.raises(NotFound) as refusal:
        table.only(["validaton_loss", "trial", "zzz"])

    near, far = refusal.value.faults
    assert near.what == "there is no column validaton_loss"
    assert near.hint == "Did you mean validation_loss?"
    assert near.expected == ", ".join(column.name for column in TRIALS)
    assert (far.what, far.hint) == ("there is no column zzz", None)


def test_a_frame_keeps_unknown_integers_apart_and_types_every_column():
    frame = LETTERS.frame()

    assert list(frame.dtypes.astype(str)) == ["Int64", "str", "float64"]
    assert frame["a"].tolist() == [1, pd.NA]
    assert frame.isna().to_numpy().tolist() == [[False, False, True], [True, True, False]]


def test_an_empty_table_keeps_its_columns_and_types():
    frame = Table(rows=[], columns=UPDATES).frame()

    assert list(frame.columns) == [column.name for column in UPDATES]
    assert str(frame["ran"].dtype) == "boolean"
