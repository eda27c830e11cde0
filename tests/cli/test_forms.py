"""One table in every form: the same columns, the same numbers to the last digit."""

import csv
import io
import json
import sqlite3

import pandas as pd
import pyarrow.parquet
import pytest

import sweeper as package

TABLES = {
    "trials": (["trials", "study.yaml"], package.trials, "sweeper_trials"),
    "updates": (["updates", "study.yaml"], package.updates, "sweeper_updates"),
}


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def case(request, begun):
    """The words of a command, the function behind it, the view below both."""
    return request.param


@pytest.fixture
def frame(case, begun):
    return case[1](begun.file)


@pytest.fixture
def objects(case, sweeper):
    return json.loads(sweeper(*case[0], "--json").out)


@pytest.fixture
def lines(case, sweeper):
    return list(csv.DictReader(io.StringIO(sweeper(*case[0], "--csv").out)))


@pytest.fixture
def parquet(case, sweeper, tmp_path):
    assert sweeper(*case[0], "--parquet", tmp_path / "table.parquet").status == 0
    return pyarrow.parquet.read_table(tmp_path / "table.parquet")


@pytest.fixture
def view(case, begun):
    connection = sqlite3.connect(begun.folder.database)
    connection.row_factory = sqlite3.Row
    yield [dict(row) for row in connection.execute(f"SELECT * FROM {case[2]}")]
    connection.close()


def _place(row):
    return row["trial"], row.get("sequence")


def _text(value):
    return "" if value is None else str(value)


def test_all_forms_have_the_view_s_columns_in_its_order(frame, objects, lines, parquet, view):
    names = list(view[0])

    assert list(frame.columns) == names
    assert list(objects[0]) == names
    assert list(lines[0]) == names
    assert parquet.column_names == names


def test_json_and_parquet_hold_the_view_s_values(objects, parquet, view):
    assert sorted(objects, key=_place) == sorted(view, key=_place)
    assert parquet.to_pylist() == objects


def test_csv_holds_the_same_numbers_and_nothing_where_one_is_unknown(lines, objects):
    assert [[_text(value) for value in row.values()] for row in objects] == [
        list(line.values()) for line in lines
    ]


def test_pandas_holds_the_same_numbers_and_none_where_one_is_unknown(frame, objects):
    plain = frame.astype(object).where(frame.notna(), None)

    assert plain.to_dict("records") == objects


def test_nothing_says_nan(case, sweeper):
    assert "NaN" not in sweeper(*case[0], "--json").out
    assert ",nan," not in sweeper(*case[0], "--csv").out.lower().replace("loss=nan", "")


def test_unknown_values_are_null_in_parquet(parquet):
    assert parquet["loss" if "loss" in parquet.column_names else "validation_loss"].null_count > 0


def test_a_program_gets_its_form_alone_on_standard_output(sweeper, begun):
    ran = sweeper("trials", "study.yaml", "--json")

    assert len(json.loads(ran.out)) == 9
    assert ran.err == "Next: sweeper compare study.yaml\n"


def test_parquet_is_written_to_the_file_and_said_beside_the_result(sweeper, begun, tmp_path):
    file = tmp_path / "trials.parquet"

    ran = sweeper("trials", "study.yaml", "--parquet", file)

    assert ran.out == ""
    assert ran.err == f"Wrote {file}\nNext: sweeper compare study.yaml\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["trials.parquet"]
    pd.testing.assert_frame_equal(
        pd.read_parquet(file), package.trials(begun.file), check_dtype=False
    )


def test_columns_may_be_chosen_for_programs_too(sweeper, begun):
    ran = sweeper("trials", "study.yaml", "--columns", "reason, trial", "--csv")

    assert ran.out.splitlines()[:2] == ["reason,trial", "budget_reached,baseline/0"]


@pytest.mark.parametrize(
    "forms",
    [
        ["--json", "--csv"],
        ["--csv", "--parquet", "t.parquet"],
        ["--json", "--parquet", "t.parquet"],
        ["--markdown", "--latex"],
        ["--csv", "--markdown"],
    ],
    ids=" ".join,
)
def test_two_forms_at_once_are_refused(sweeper, begun, forms):
    ran = sweeper("trials", "study.yaml", *forms)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == ("error: give one of --json, --csv, --parquet, --markdown and --latex.\n")


def test_a_column_that_does_not_exist_is_refused_with_the_nearest(sweeper, begun):
    ran = sweeper("trials", "study.yaml", "--columns", "trial,validaton_loss")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(
        "error: there is no column validaton_loss (expected trial, arm, seed,"
    )
    assert ran.err.endswith("Did you mean validation_loss?\n")


@pytest.mark.parametrize(
    ("target", "trouble"),
    [("no/such/folder/t.parquet", "No such file or directory"), ("runs", "Is a directory")],
)
def test_a_parquet_file_that_cannot_be_written_is_refused(sweeper, begun, target, trouble):
    ran = sweeper("trials", "study.yaml", "--parquet", target)

    assert ran.status == 2
    assert ran.err == (
        f"error: {target}: the table cannot be written (got {trouble}). "
        "Name a file in a folder that exists and that you may write to.\n"
    )
