"""Framing of data files: every form read by content, every fault with its physical line."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.data.placeholders import ACCEPTED
from sweeper.data.reading import read_file
from sweeper.errors import DataError, Fault

ONE = b'{"prompt": "p1", "answer": "a1"}'
TWO = b'{"prompt": "p2", "answer": "a2"}'
FIRST = {"prompt": "p1", "answer": "a1"}
SECOND = {"prompt": "p2", "answer": "a2"}

Write = Callable[[str, bytes], Path]


def values(path: Path) -> list[object]:
    return [record.value for record in read_file(path)[1]]


def places(path: Path) -> list[tuple[int, int]]:
    return [(record.place.record, record.place.line) for record in read_file(path)[1]]


def faults_of(path: Path) -> tuple[Fault, ...]:
    with pytest.raises(DataError) as caught:
        read_file(path)
    return caught.value.faults


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(ONE + b"\n" + TWO + b"\n", id="lines"),
        pytest.param(ONE + b"\n" + TWO, id="no line feed at the end"),
        pytest.param(b"\xef\xbb\xbf" + ONE + b"\n" + TWO + b"\n", id="byte order mark"),
        pytest.param(ONE + b"\r\n" + TWO + b"\r\n", id="carriage returns"),
        pytest.param(ONE + b"\n\n  \t\n" + TWO + b"\n\n", id="blank lines"),
        pytest.param(ONE + b"\n\xef\xbb\xbf" + TWO + b"\n", id="two files with marks in one"),
        pytest.param(b"[" + ONE + b"," + TWO + b"]", id="array on one line"),
        pytest.param(b"\xef\xbb\xbf[\n " + ONE + b",\n " + TWO + b"\n]\n", id="array over lines"),
    ],
)
@pytest.mark.parametrize("name", ["records.jsonl", "records.json", "records"])
def test_the_same_records_are_read_in_whatever_form_they_stand(
    write_bytes: Write, name: str, content: bytes
) -> None:
    assert values(write_bytes(name, content)) == [FIRST, SECOND]


def test_blank_lines_do_not_shift_the_line_numbers(write_bytes: Write) -> None:
    path = write_bytes("records.jsonl", ONE + b"\n\n   \n" + TWO + b"\n")
    assert places(path) == [(1, 1), (2, 4)]


def test_records_of_an_array_know_their_lines(write_bytes: Write) -> None:
    path = write_bytes("records.json", b"[\n" + ONE + b",\n\n" + TWO + b"]")
    assert places(path) == [(1, 2), (2, 4)]


def test_the_form_that_was_found_is_named(write_bytes: Write) -> None:
    assert read_file(write_bytes("a.jsonl", b"[" + ONE + b"]"))[0].form == "JSON array"
    assert read_file(write_bytes("b.json", ONE))[0].form == "JSONL"


def test_line_separators_inside_a_text_do_not_end_the_line(write_bytes: Write) -> None:
    text = "a\u2028b\x85c"
    line = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert values(write_bytes("records.jsonl", line + b"\n")) == [{"text": text}]


def test_values_keep_their_types(write_bytes: Write) -> None:
    path = write_bytes("records.jsonl", b'{"a": 7, "b": "7", "c": null, "d": true, "e": [1.5]}\n')
    assert values(path) == [{"a": 7, "b": "7", "c": None, "d": True, "e": [1.5]}]


def test_size_time_and_digest_are_those_of_the_bytes(write_bytes: Write) -> None:
    path = write_bytes("records.jsonl", ONE)
    source, _ = read_file(path)
    assert source.size_bytes == len(ONE)
    assert source.modified_ns == path.stat().st_mtime_ns
    assert source.sha256 == hashlib.sha256(ONE).hexdigest()


@pytest.mark.parametrize(
    "tail",
    [b'{"prompt": "p3', b'{"prompt": "p3",', b'{"prompt": tr', b'{"prompt": "p3", "answer": "a"'],
)
def test_a_file_that_ends_inside_a_record_is_refused_with_the_line(
    write_bytes: Write, tail: bytes
) -> None:
    (fault,) = faults_of(write_bytes("records.jsonl", ONE + b"\n\n" + TWO + b"\n" + tail))
    assert fault.what == "incomplete record, file truncated?"
    assert fault.got == "record 3 (line 4)"


@pytest.mark.parametrize("tail", [b"", b",", b",\n" + TWO[:9], b",\n" + TWO[:-1], b",\n" + TWO])
def test_an_array_without_its_end_is_refused(write_bytes: Write, tail: bytes) -> None:
    (fault,) = faults_of(write_bytes("records.json", b"[\n" + ONE + tail))
    assert fault.what == "incomplete record, file truncated?"


def test_a_file_that_ends_inside_a_character_is_refused_with_the_offset(
    write_bytes: Write,
) -> None:
    (fault,) = faults_of(write_bytes("records.jsonl", ONE + b'\n{"prompt": "\xe4\xb8'))
    assert fault.what == "the file ends inside a character, truncated?"
    assert fault.got == "byte 0xe4 at byte offset 45"


def test_bytes_that_are_not_utf8_are_named_with_offset_and_line(write_bytes: Write) -> None:
    path = write_bytes("records.jsonl", ONE + b'\n{"text": "\xb9\xfa"}\n')
    (fault,) = faults_of(path)
    assert fault.what == "not UTF-8 text"
    assert fault.where == f"{path}, line 2"
    assert fault.got == "byte 0xb9 at byte offset 43"
    assert fault.hint == "Save the file as UTF-8"


@pytest.mark.parametrize(
    ("content", "what", "place"),
    [
        (b'{"a" 1}\n', "not valid JSON: expecting ':' delimiter", "record 1 (line 1), column 6"),
        (b'{"a": NaN}\n', "the value NaN is not JSON", "record 1 (line 1)"),
        (b'{"a": 1, "a": 2}\n', "the key `a` is given twice", "record 1 (line 1)"),
        (b'{"a": 1}{"a": 2}\n', "the line holds more than one JSON value", "record 1 (line 1)"),
        (b'"text"\n', "the record is a text", "record 1 (line 1)"),
        (b"7\n", "the record is a number", "record 1 (line 1)"),
        (b"[[1]]\n", "the record is a list", "record 1 (line 1)"),
        (b'[{"a": 1} {"a": 2}]', "a comma is missing after the record", "record 1 (line 1)"),
        (b'[{"a": 1}] 7', "something follows the end of the JSON array", "record 1 (line 1)"),
        (b'[{"a": 1},]', "not valid JSON: expecting value", "record 2 (line 1), line 1, column 11"),
        (b'{"a": 1e999}\n', "the record holds a number beyond the range of floats", None),
        (
            b'{"a": "\\ud800"}\n',
            "the record holds half of a surrogate pair, which is no text",
            None,
        ),
    ],
)
def test_a_record_that_is_no_json_object_is_refused(
    write_bytes: Write, content: bytes, what: str, place: str | None
) -> None:
    (fault,) = faults_of(write_bytes("records.jsonl", content))
    assert fault.what == what
    assert fault.got == (place or "record 1 (line 1)")


@pytest.mark.parametrize("deep", [b'{"a": ' + b"[" * 100_000, b'{"a": ' + b"7" * 5000 + b"}"])
def test_absurd_records_are_refused_without_a_crash(write_bytes: Write, deep: bytes) -> None:
    (fault,) = faults_of(write_bytes("records.jsonl", ONE + b"\n" + deep + b"\n" + ONE))
    assert fault.what == "the record is nested too deep, or holds a number of too many digits"


def test_faults_of_one_kind_are_counted_and_the_first_five_named(write_bytes: Write) -> None:
    (fault,) = faults_of(write_bytes("records.jsonl", b"7\n" * 8))
    assert fault.what == "the record is a number, in 8 records"
    assert fault.got == "; ".join(f"record {n} (line {n})" for n in range(1, 6)) + "; and 3 more"


def test_faults_of_all_kinds_are_told_in_one_go(write_bytes: Write) -> None:
    faults = faults_of(write_bytes("records.jsonl", b'7\n{"a" 1}\n"x"\n' + ONE))
    assert [fault.what for fault in faults] == [
        "the record is a number",
        "not valid JSON: expecting ':' delimiter",
        "the record is a text",
    ]


def test_one_object_over_several_lines_is_named_as_such(write_bytes: Write) -> None:
    path = write_bytes("records.json", b'{\n "train": [\n  {"a": 1}\n ]\n}\n')
    (fault,) = faults_of(path)
    what = "the file holds one JSON object over several lines, not a list of records"
    assert fault == Fault(what=what, where=str(path), expected=ACCEPTED)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("train.jsonl", b"", "the file is empty"),
        ("train.jsonl", b"\xef\xbb\xbf\n \n", "the file is empty"),
        ("train.jsonl", b"[]", "the file holds no records"),
        (
            "train.jsonl",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
            "the file is a Git LFS pointer, not the data",
        ),
        ("train.json", b"0a" * 20 + b"\n", "the file holds a Git object id only, not the data"),
        (
            "train.jsonl",
            b"/annex/objects/SHA256E-s12--00.jsonl\n",
            "the file is a git-annex pointer, not the data",
        ),
        (
            "train.csv",
            b"\n<!DOCTYPE html><html><body>Sign in</body></html>",
            "the file is an HTML or XML page, not the data",
        ),
        ("train.jsonl", gzip.compress(ONE, mtime=0), "compressed files are not read (gzip)"),
        ("train.jsonl.gz", ONE, "compressed files are not read (gzip)"),
        ("train.jsonl", b"\x28\xb5\x2f\xfd\x00", "compressed files are not read (zstandard)"),
        ("train.csv", b"prompt,answer\np,a\n", "CSV files are not read"),
        ("train.jsonl", b"PAR1\x15\x04", "Parquet files are not read"),
        ("train.jsonl", ONE.decode().encode("utf-16"), "the file is UTF-16"),
    ],
)
def test_a_file_that_is_no_text_of_records_is_called_what_it_is(
    write_bytes: Write, name: str, content: bytes, what: str
) -> None:
    (fault,) = faults_of(write_bytes(name, content))
    assert fault.what == what


def test_what_is_not_read_yet_is_refused_with_what_is(write_bytes: Write) -> None:
    (fault,) = faults_of(write_bytes("train.parquet", b"PAR1"))
    assert fault.expected == "JSONL or JSON records, as UTF-8 text and not compressed"


def test_a_missing_file_is_named_with_what_is_there(tmp_path: Path, write_bytes: Write) -> None:
    write_bytes("training.jsonl", ONE)
    (fault,) = faults_of(tmp_path / "train.jsonl")
    assert fault.what == "the file does not exist"
    assert fault.hint == "The folder holds: training.jsonl"


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path)
    assert fault.what == "the file cannot be read: Is a directory"
