"""What every column of every table and every figure holds: values of its kind, or none."""

import math

import pytest

from sweeper.report.arm_tables import arm_table, difference_table
from sweeper.report.comparison import compare
from sweeper.report.document import draw
from sweeper.report.formats import csv_text
from sweeper.report.run_tables import cost_table, exposure_table, metric_table, stability_table
from sweeper.report.tables import attempt_table, evaluation_table, trial_table, update_table

pytestmark = pytest.mark.slow  # draws every figure of every kind of study

KINDS = (
    *("answered", "ruined", "young", "cut_short", "extended", "hostile"),
    *("batches", "reopened"),
)
FITS = {
    "text": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and math.isfinite(value),
    "flag": lambda value: value in {True, False},
}
TABLES = (
    *(trial_table, update_table, evaluation_table, attempt_table),
    *(exposure_table, stability_table, cost_table, metric_table),
)


def misfits(table):
    """Columns with a value that is not of their kind."""
    return {
        (column.name, column.kind, row[column.name])
        for column in table.columns
        for row in table.rows
        if row[column.name] is not None and not FITS[column.kind](row[column.name])
    }


def shapes(table):
    """How many rows the table has, as a frame and as CSV text, whose quoted cells hold no line."""
    return len(table.frame()), len(csv_text(table).splitlines()) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_figure_draws_is_of_its_columns_kind_or_missing(kind, dossiers):
    drawn = [each.table for each in draw(dossiers[kind]).values() if each is not None]

    assert [misfits(table) for table in drawn] == [set()] * len(drawn)
    assert [shapes(table) for table in drawn] == [(len(t.rows), len(t.rows)) for t in drawn]
    assert not any("nan" in csv_text(table) for table in drawn)


@pytest.fixture(params=[*KINDS, "begun", "finished"])
def record(request, page_records, begun, finished):
    """A study on record; of these two, `begun` has trials that never wrote a word."""
    runs = {"begun": begun, "finished": finished}
    return runs.get(request.param) or page_records[request.param]


def test_what_a_table_holds_is_of_its_columns_kind_or_missing(record):
    found = compare(record.folder.path)
    tables = [read(record.folder.path) for read in TABLES]
    tables += [arm_table(found), difference_table(found)]

    assert [misfits(table) for table in tables] == [set()] * len(tables)
    assert [len(table.frame()) for table in tables] == [len(table.rows) for table in tables]


def test_the_median_of_counts_may_lie_between_two(dossiers):
    """Four seeds evaluated after 502, 501, 503 and 500 target tokens."""
    (first, *_) = [
        row
        for row in draw(dossiers["batches"])["loss_by_tokens"].table.rows
        if row["drawn"] == "median" and row["arm"] == "baseline" and row["target_tokens_read"] > 0
    ]

    assert first["target_tokens_read"] == 501.5
