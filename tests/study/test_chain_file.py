"""The chain's mirror: an entry a line, added to and never rewritten."""

from __future__ import annotations

import json

import pytest

from sweeper.errors import RunFolderError, StudyConflict
from sweeper.selection.chain import EntryKind, link_after
from sweeper.study.chain_file import complete_chain_file, read_chain_file


@pytest.fixture
def links():
    first = link_after(None, EntryKind.NOTE, {"loss": 0.1, "who": "\u00e9"}, at="12:00")
    second = link_after(first, EntryKind.NOTE, {"loss": None}, at="12:01")
    return first, second


@pytest.fixture
def file(tmp_path):
    return tmp_path / "chain.jsonl"


def test_what_is_missing_is_added_line_by_line_and_read_back_as_it_was(file, links):
    complete_chain_file(file, lambda: links[:1])
    first = file.read_bytes()

    complete_chain_file(file, lambda: links)

    assert file.read_bytes().startswith(first)
    assert file.read_bytes().count(b"\n") == 2
    assert read_chain_file(file) == links


def test_a_line_says_the_digest_and_the_entry(file, links):
    complete_chain_file(file, lambda: links[:1])

    assert json.loads(file.read_text()) == {
        "digest": links[0].digest,
        "entry": {"at": "12:00", "loss": 0.1, "seq": 1, "type": "note", "who": "\u00e9"},
    }


def test_a_line_that_was_never_finished_is_written_anew(file, links):
    complete_chain_file(file, lambda: links)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert read_chain_file(file) == links[:1]

    complete_chain_file(file, lambda: links)

    assert file.read_bytes() == whole


def test_a_line_that_two_workers_wrote_at_once_counts_once(file, links):
    complete_chain_file(file, lambda: links)
    line = file.read_bytes().splitlines(keepends=True)[1]
    file.write_bytes(file.read_bytes() + line)

    assert read_chain_file(file) == links


def test_without_a_file_there_is_nothing(file):
    assert read_chain_file(file) == ()


def test_a_record_that_says_otherwise_is_refused_and_nothing_is_written(file, links):
    complete_chain_file(file, lambda: links)
    before = file.read_bytes()
    other = link_after(links[0], EntryKind.NOTE, {"loss": 0.0}, at="12:01")

    with pytest.raises(StudyConflict, match=r"line 2: the chain in the database is not the one"):
        complete_chain_file(file, lambda: (links[0], other))

    assert file.read_bytes() == before


def test_a_record_that_is_an_older_copy_is_refused(file, links):
    complete_chain_file(file, lambda: links)

    with pytest.raises(StudyConflict, match="got 1 entries in the database; expected 2 as in"):
        complete_chain_file(file, lambda: links[:1])


@pytest.mark.parametrize("line", ["not JSON", "[]", '{"entry": {}, "digest": "a"}'])
def test_a_line_that_is_none_of_ours_is_named(file, links, line):
    complete_chain_file(file, lambda: links[:1])
    file.write_text(file.read_text() + line + "\n")

    with pytest.raises(RunFolderError, match="line 2: the mirror of the chain is damaged"):
        read_chain_file(file)
