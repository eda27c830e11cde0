"""Columns that fit the terminal, and values as a person reads them."""

import pytest

from sweeper.cli.layout import (
    cell,
    columns_from,
    columns_of,
    fit,
    print_columns,
    print_facts,
    print_one_below_another,
    width_of,
)
from sweeper.report.columns import NATS, SECONDS, Column, Table

ROWS = [
    {"trial": "half/0", "validation_loss": 2.5, "target_tokens_read": 30},
    {"trial": "double/0", "validation_loss": None, "target_tokens_read": 20},
]
COLUMNS = columns_from(ROWS)


def test_columns_that_fit_keep_their_headers_on_one_line():
    assert width_of(COLUMNS) == 8 + 2 + 15 + 2 + 18
    assert fit(COLUMNS, 45) == COLUMNS


def test_headers_are_broken_before_a_column_is_left_out():
    shown = fit(COLUMNS, 44)

    assert [column.header for column in shown] == [
        "trial",
        "validation_\nloss",
        "target_\ntokens_\nread",
    ]
    assert width_of(shown) == 8 + 2 + 11 + 2 + 7


def test_the_last_columns_are_left_out_first():
    assert [column.name for column in fit(COLUMNS, 29)] == ["trial", "validation_loss"]


def test_one_column_is_always_shown():
    assert [column.name for column in fit(COLUMNS, 1)] == ["trial"]


def test_wide_characters_count_as_two():
    (column,) = columns_from([{"name": "参数"}])

    assert column.width == 4


def test_numbers_stand_to_the_right_and_words_to_the_left(capsys):
    print_columns(COLUMNS)

    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "trial     validation_loss  target_tokens_read",
        "half/0                2.5                  30",
        "double/0                -                  20",
    ]


def test_what_is_left_out_is_named_beside_the_result(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")

    print_columns(COLUMNS)

    printed = capsys.readouterr()
    assert [line.rstrip() for line in printed.out.splitlines()] == [
        "          validation_",
        "trial            loss",
        "half/0            2.5",
        "double/0            -",
    ]
    assert printed.err == "Not shown, for want of width: target_tokens_read\n"


def test_rows_may_stand_one_below_another(capsys):
    print_one_below_another(COLUMNS)

    assert capsys.readouterr().out == (
        "trial                   half/0\n"
        "validation_loss         2.5\n"
        "target_tokens_read      30\n"
        "\n"
        "trial                   double/0\n"
        "validation_loss         -\n"
        "target_tokens_read      20\n"
    )


def test_a_fact_keeps_its_lines_and_is_never_broken(capsys, narrow):
    path = "/" + 100 * "x"

    print_facts({"traceback": "first\n  second", "folder": path})

    assert capsys.readouterr().out == (
        "traceback               first\n"
        "                          second\n"
        f"folder                  {path}\n"
    )


def test_a_long_name_keeps_its_distance(capsys):
    name = "training.schedule.warmup.target_tokens"

    print_facts({name: "100"})

    assert capsys.readouterr().out == f"{name}  100\n"


def test_a_table_s_numbers_are_written_as_their_units_ask():
    table = Table(
        rows=[{"loss": 2.0, "wall_seconds": 12.25, "learning_rate": 0.05}],
        columns=[
            Column(name="loss", kind="number", unit=NATS, meaning="a loss"),
            Column(name="wall_seconds", kind="number", unit=SECONDS, meaning="a time"),
            Column(name="learning_rate", kind="number", unit=None, meaning="a rate"),
        ],
    )

    assert [column.cells for column in columns_of(table)] == [["2.0000"], ["12.2"], ["0.05"]]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, None, "-"),
        (True, None, "yes"),
        (False, None, "no"),
        (0, None, "0"),
        (123456789, "bytes", "123456789"),
        (2.0, NATS, "2.0000"),
        (0.00012346, NATS, "0.0001235"),
        (1.5e9, NATS, "1.5e+09"),
        (3723.25, SECONDS, "3723.2"),
        (0.0123456, SECONDS, "0.01235"),
        (1e-5, None, "1e-05"),
        ("a [b] c", None, "a [b] c"),
    ],
)
def test_a_value_is_written_so_that_a_person_can_read_it(value, unit, text):
    assert cell(value, unit) == text
