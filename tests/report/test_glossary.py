"""Columns are defined once: the page, the command and the tables say the same."""

from pathlib import Path

import pytest

import sweeper
from sweeper.errors import NotFound
from sweeper.report.columns import LEARNING_RATE
from sweeper.report.glossary import TABLES, described, glossary, glossary_markdown

PAGE = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")
ON_THE_PAGE = ["arms", "differences", "exposure", "stability", "cost", "metrics"]
OF_A_STUDY = [name for name in TABLES if name != "record_losses"]


def test_the_page_holds_the_glossary_as_it_is():
    assert PAGE.endswith(f"\n\n{glossary_markdown(ON_THE_PAGE)}")


@pytest.mark.parametrize("name", OF_A_STUDY)
def test_a_table_has_the_columns_of_its_glossary(finished, name):
    frame = getattr(sweeper, name)(finished.file)

    own = [column for column in frame.columns if not column.startswith("difference_seed_")]
    assert own == [column.name for column in TABLES[name].columns]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_a_name_of_its_own_and_a_meaning(name):
    columns = TABLES[name].columns

    assert len({column.name for column in columns}) == len(columns)
    assert min(len(column.meaning.split()) for column in columns) >= 2
    assert all(
        column.error is None or column.error in {c.name for c in columns} for column in columns
    )


def test_the_glossary_of_all_tables_is_that_of_each():
    rows = glossary().records()

    assert len(rows) == sum(len(described(name).columns) for name in TABLES)
    assert {
        "table": "arms",
        "column": "learning_rate",
        "unit": None,
        "meaning": LEARNING_RATE.meaning,
    } in rows


def test_a_table_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match=r"there is no table amrs .*Did you mean arms\?"):
        glossary("amrs")
