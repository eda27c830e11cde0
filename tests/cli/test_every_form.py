"""Every table in every form: the same columns, the same numbers to the last digit, no "nan"."""

import csv
import io
import json

import pyarrow.parquet
import pytest
import typer.main

import sweeper as package
from sweeper.cli.main import application

TABLES = ["arms", "differences", "exposure", "stability", "cost", "evaluations", "attempts"]


@pytest.fixture(params=TABLES)
def name(request, begun):
    """A table of the study in mid-run, where much is unknown."""
    return request.param


@pytest.fixture
def objects(name, sweeper):
    return json.loads(sweeper(name, "study.yaml", "--json").out)


def test_csv_holds_the_numbers_of_json_and_nothing_where_one_is_unknown(name, objects, sweeper):
    out = sweeper(name, "study.yaml", "--csv").out

    lines = list(csv.DictReader(io.StringIO(out, newline="")))
    assert lines == [
        {key: "" if value is None else str(value) for key, value in row.items()} for row in objects
    ]
    assert "nan" not in {cell.lower() for line in lines for cell in line.values()}


def test_parquet_holds_the_values_of_json(name, objects, sweeper, tmp_path):
    sweeper(name, "study.yaml", "--parquet", tmp_path / "t.parquet")

    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist() == objects


def test_pandas_holds_the_values_of_json(name, objects, begun):
    frame = getattr(package, name)(begun.file)

    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == objects


@pytest.mark.parametrize("form", ["--markdown", "--latex"])
def test_a_text_has_a_row_for_each_row_and_says_no_nan(name, objects, sweeper, form):
    out = sweeper(name, "study.yaml", form).out

    ends = {"--markdown": " |", "--latex": " \\\\"}
    rows = [line for line in out.splitlines() if line.endswith(ends[form])]
    assert len(rows) == len(objects) + {"--markdown": 2, "--latex": 1}[form]
    assert "nan " not in out.lower().replace("was nan", "")


def commands_with_json():
    commands = typer.main.get_command(application()).commands.values()
    return {each.name for each in commands if any("--json" in p.opts for p in each.params)}


A_TRIAL = "half/0"
JSON_OF = {
    "audit": ["STUDY"],
    "columns": [],
    "compare": ["STUDY"],
    "diagnose": ["STUDY", A_TRIAL],
    "digest": ["RECORDS"],
    "ls": ["FOLDER"],
    "metrics": ["STUDY"],
    "open-test": ["STUDY", "--dry-run", "--test", "RECORDS"],
    "select": ["STUDY", "--dry-run", "--reason", "again"],
    "show": ["STUDY", A_TRIAL],
    "status": ["STUDY"],
}
READ_ELSEWHERE = {"check", "replay", "trials", "updates", *TABLES}
"""In tests/flow, where there is a model to look at; in test_forms.py; and above."""


def test_no_command_with_json_is_left_out_below():
    assert commands_with_json() == {*JSON_OF, *READ_ELSEWHERE}


@pytest.mark.parametrize("command", JSON_OF)
def test_json_is_all_that_a_command_prints_on_standard_output(command, sweeper, frozen, tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_text('{"text": "red"}\n')
    named = {"STUDY": frozen.file, "FOLDER": tmp_path, "RECORDS": records}
    words = [named.get(word, word) for word in JSON_OF[command]]

    ran = sweeper(command, *words, "--json")

    assert isinstance(json.loads(ran.out), dict | list)


def test_numbers_in_a_table_are_the_comparison_s_to_the_last_digit(sweeper, finished):
    compared = json.loads(sweeper("compare", "study.yaml", "--json").out)
    arms = json.loads(sweeper("arms", "study.yaml", "--json").out)
    differences = json.loads(sweeper("differences", "study.yaml", "--json").out)

    half, shown, paired = compared["arms"][0], arms[1], differences[0]
    assert (shown["mean"], shown["sd"]) == (half["summary"]["mean"], half["summary"]["sd"])
    assert (paired["mean"], paired["p"], paired["p_holm"]) == (
        half["difference"]["mean"],
        half["difference"]["p"],
        half["difference"]["p_holm"],
    )
    assert (paired["low_95"], paired["high_95"]) == tuple(
        half["difference"]["interval_95"].values()
    )


def test_columns_may_be_chosen_for_a_text_too(sweeper, finished):
    ran = sweeper("arms", "study.yaml", "--columns", "arm,mean", "--markdown")

    assert ran.out.splitlines()[2:6] == [
        "| arm | mean |",
        "| :--- | ---: |",
        "| baseline | 1.5625 |",
        "| half | 2.0703 |",
    ]


def test_the_arms_in_markdown_are_the_table_for_a_paper(sweeper, finished):
    out = sweeper("arms", "study.yaml", "--markdown").out

    assert out.startswith("**Is the rate too high? Arms of rates, 3 seeds each.**\n")
    assert "| double | 0.0004 | 0/3 | 3/3 (29 % to 100 %) | - (completed only, 0 of 3) |" in out


def test_arms_on_a_terminal_say_which_losses_they_are_of(sweeper, finished):
    lines = sweeper("arms", "study.yaml", "--columns", "arm,mean,losses_of,sd").out.splitlines()

    assert lines[0].split() == ["arm", "mean", "losses_of", "sd"]
    assert lines[3].split() == ["double", "-", "completed", "only,", "0", "of", "3", "-"]
