"""Files of metrics: what is read from them, and every fault with its line, all in one message."""

import json

import pandas as pd
import pytest

from sweeper.errors import DataError
from sweeper.sweep.metric_file import Planned, read_metrics

PLANNED = Planned(
    trials={
        ("baseline", 0): "baseline/0",
        ("double", 0): "double/0",
        ("baseline~repeat", 0): "baseline/0~repeat",
    },
    taken={"validation_loss", "updates"},
)
VALUES = {("baseline/0", "em"): 0.5, ("double/0", "em"): 1.0, ("double/0", "rouge.L"): 1e-3}

CSV = "trial,em,rouge.L\nbaseline/0,0.5,\ndouble/0,1,1e-3\n"
ROWS = [
    {"trial": "baseline/0", "em": 0.5, "rouge.L": None},
    {"trial": "double/0", "em": 1, "rouge.L": 0.001},
]


@pytest.fixture
def read(tmp_path):
    """Writes a file and reads it."""

    def write_and_read(content, name="m.csv"):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_metrics(file, PLANNED)

    return write_and_read


@pytest.fixture
def faults(read, tmp_path):
    """Writes a file with faults and returns them, the folder left out."""

    def write_and_fail(content, name="m.csv"):
        with pytest.raises(DataError) as refusal:
            read(content, name)
        return [str(fault).replace(f"{tmp_path}/", "") for fault in refusal.value.faults]

    return write_and_fail


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (CSV, "m.csv"),
        (CSV.encode("utf-8-sig").replace(b"\n", b"\r\n"), "m.csv"),
        ("arm,seed,em,rouge.L\nbaseline,0,0.5,\ndouble,0,1,1e-3\n", "m.csv"),
        (
            "trial,arm,seed,em,rouge.L\nbaseline/0,baseline,0,0.5,\ndouble/0,double,0,1,1e-3\n",
            "m.CSV",
        ),
        (json.dumps(ROWS), "m.json"),
        ("\n".join(json.dumps(row) for row in ROWS) + "\n", "m.jsonl"),
    ],
    ids=["csv", "marked", "by arm and seed", "both", "json", "json lines"],
)
def test_a_value_is_read_by_trial_and_name_whatever_the_form(read, content, name):
    assert read(content, name).by_place == VALUES


def test_parquet_is_read_with_its_nulls(read, tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "rows.parquet")

    found = read((tmp_path / "rows.parquet").read_bytes(), "m.parquet")

    assert found.by_place == VALUES
    assert found.places["double/0", "em"] == f"{tmp_path}/m.parquet, row 2"


def test_a_file_is_known_by_its_digest_and_values_by_their_lines(read, tmp_path):
    found = read(CSV)

    assert found.source.name == "m.csv"
    assert found.source.sha256 == (
        "d5adfbfe7781d19d17d33fe9a91c2102f8161274e24bc37e6cc71f8b3ed27856"
    )
    assert found.places["double/0", "em"] == f"{tmp_path}/m.csv:3"


def test_the_repeat_of_the_baseline_may_have_metrics_too(read):
    assert read("arm,seed,em\nbaseline~repeat,0,1\n").by_place == {("baseline/0~repeat", "em"): 1.0}


def test_all_faults_of_a_file_are_told_at_once_each_with_its_line(faults):
    content = (
        "trial,em,rouge\n"
        "baseline/0,nan,1\n"
        "doubel/0,x,inf\n"
        "baseline/0,1,1\n"
        "double/0,1\n"
        "double/0,-Infinity,1_000\n"
    )

    assert faults(content) == [
        "m.csv:5: a row has another number of cells than the header (got 2; expected 3).",
        "m.csv:2: em is not finite (got nan). Leave the cell empty where there is no value.",
        "m.csv:3: the study has no such trial (got doubel/0). Did you mean double/0?",
        "m.csv:3: em is not a number (got x). Leave the cell empty where there is no value.",
        "m.csv:3: rouge is not finite (got inf). Leave the cell empty where there is no value.",
        "m.csv:4: baseline/0 stands there twice (got the first time at m.csv:2).",
        "m.csv:6: em is not finite (got -Infinity). Leave the cell empty where there is no value.",
        "m.csv:6: rouge is not a number (got 1_000). Leave the cell empty where there is no value.",
    ]


@pytest.mark.parametrize("cell", ["1,5", "0x1F", "1e", "--1", "1 2", "true", "1e999"])
def test_whatever_is_not_a_finite_decimal_number_is_a_fault(faults, cell):
    (fault,) = faults(f'trial,em\ndouble/0,"{cell}"\n')

    assert fault.startswith("m.csv:2: em is not ")


@pytest.mark.parametrize("value", ['"0.5"', "true", "[1]", "NaN", "1e999", "1" + "0" * 400])
def test_in_json_only_finite_numbers_are_values(faults, value):
    (fault,) = faults('[{"trial": "double/0",\n "em": ' + value + "}]", "m.json")

    assert fault.startswith("m.json:1: em is not ")


def test_a_line_of_json_is_that_on_which_its_object_begins(faults):
    content = '[\n{"trial": "double/0", "em": 1},\n\n {"trial": "half/9",\n "em": 1}, 7]'

    assert faults(content, "m.json") == [
        "m.json:5: a row is an object (got 7).",
        "m.json:4: the study has no such trial (got half/9). Write arm and seed, as in double/2.",
    ]


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        ("arm,em\ndouble,1\n", "m.csv", "m.csv:1: no column says which trial"),
        ("trial\ndouble/0\n", "m.csv", "m.csv:1: there is no column with a metric"),
        ("", "m.csv", "m.csv:1: no column says which trial"),
        ("trial,em,em\ndouble/0,1,2\n", "m.csv", "m.csv:1: a column stands there twice (got em)"),
        ("trial,=em\ndouble/0,1\n", "m.csv", "m.csv:1: the name of a metric is not one (got =em"),
        (
            "trial,updates\ndouble/0,1\n",
            "m.csv",
            "m.csv:1: updates is a column that trials have anyway",
        ),
        (
            "trial,arm,seed,em\ndouble/0,baseline,0,1\n",
            "m.csv",
            "m.csv:2: trial, arm and seed name two trials",
        ),
        ("trial,em\ndouble/0,\n", "m.csv", "m.csv: the file holds no value of any metric"),
        ('trial,em\ndouble/0,"1\n', "m.csv", "m.csv:2: not CSV"),
        (b"trial,em\ndouble/0,\xff\n", "m.csv", "m.csv:2: not UTF-8 at byte 18"),
        ('[\n{"trial": ]', "m.json", "m.json:2: not JSON: Expecting value"),
        ('{"trial": "double/0", "em": 1}', "m.json", "m.json:1: not a list of objects"),
        ('[{"em": 1, "em": 2}]', "m.json", "m.json:1: not JSON: the key 'em' stands twice"),
        ('{"trial": "double/0"}\n{', "m.jsonl", "m.jsonl:2: not JSON"),
        ("PAR1", "m.parquet", "m.parquet: not Parquet"),
        (CSV, "m.xlsx", "m.xlsx: the name of a file of metrics says what it holds"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(faults, content, name, told):
    assert faults(content, name)[0].startswith(told)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"the file of metrics cannot be read.*No such file"):
        read_metrics(tmp_path / "none.csv", PLANNED)


def test_a_list_within_lists_without_end_is_refused(faults):
    (fault,) = faults("[" * 100_000, "m.json")

    assert fault.startswith("m.json:1: not JSON")
