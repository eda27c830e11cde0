"""`sweeper columns`: the glossary, in words and for pages."""

import json

from sweeper.report.glossary import TABLES, glossary_markdown


def test_one_table_s_columns_have_unit_and_meaning(sweeper):
    ran = sweeper("columns", "cost")

    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == ["column", "unit", "meaning"]
    assert rows[8][:2] == ["wall_seconds", "s"]
    assert ran.err == "Next: sweeper cost STUDY\n"


def test_all_tables_are_listed_with_their_columns(sweeper):
    found = json.loads(sweeper("columns", "--json").out)

    assert {row["table"] for row in found} == set(TABLES)
    assert found[0] == {
        "table": "trials",
        "column": "trial",
        "unit": None,
        "meaning": "arm and seed: the cell's id",
    }


def test_markdown_is_the_section_of_the_page(sweeper):
    assert sweeper("columns", "arms", "--markdown").out == glossary_markdown(["arms"])


def test_an_unknown_table_is_refused_with_the_nearest(sweeper):
    ran = sweeper("columns", "amrs")

    assert ran.status == 2
    assert ran.err.endswith("Did you mean arms?\n")


def test_two_forms_at_once_are_refused(sweeper):
    ran = sweeper("columns", "--json", "--markdown")

    assert (ran.status, ran.out) == (2, "")
