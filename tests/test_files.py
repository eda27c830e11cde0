"""A reader sees the old content or the new one, never a part."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.files import add_lines, bring_tree_to_disk, write_whole

DIES_WHILE_WRITING = """
import os, sys
from pathlib import Path
from sweeper.files import write_whole

os.fsync = lambda _: os.kill(os.getpid(), 9)
write_whole(Path(sys.argv[1]), "new")
"""


@pytest.mark.parametrize("content", ["gr\u00fcn\r\n", b"gr\xc3\xbcn\r\n"], ids=["text", "bytes"])
def test_content_is_written_byte_for_byte_and_text_as_utf_8(tmp_path, content):
    write_whole(tmp_path / "file", content)

    assert (tmp_path / "file").read_bytes() == b"gr\xc3\xbcn\r\n"


def test_the_old_content_is_replaced(tmp_path):
    file = tmp_path / "file"
    file.write_text("a longer old content")

    write_whole(file, "new", durable=False)

    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_kill_in_mid_writing_leaves_the_old_content(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")

    died = subprocess.run([sys.executable, "-c", DIES_WHILE_WRITING, str(file)], check=False)

    assert died.returncode == -9
    assert file.read_text() == "old"


def test_a_failure_leaves_nothing_behind(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "new \udc80")

    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "old"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "file", "new")


def test_every_file_and_folder_of_a_tree_is_brought_to_the_disk(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("x")
    seen = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: seen.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
    )

    bring_tree_to_disk(tmp_path)

    assert sorted(seen) == sorted(
        [str(tmp_path), str(tmp_path / "inner"), str(tmp_path / "inner" / "file")]
    )


def test_lines_are_added_behind_those_that_are_there(tmp_path):
    file = tmp_path / "lines"
    add_lines(file, lambda content: [f"after {len(content)} bytes"])

    add_lines(file, lambda content: [f"after {len(content)} bytes", "and one more"])

    assert file.read_text() == "after 0 bytes\nafter 14 bytes\nand one more\n"


def test_a_line_that_was_never_finished_gives_way_to_the_next(tmp_path):
    file = tmp_path / "lines"
    file.write_text("whole\ncut of")

    add_lines(file, lambda _: ["next"])

    assert file.read_text() == "whole\nnext\n"


def test_where_no_line_is_missing_nothing_is_written(tmp_path):
    file = tmp_path / "lines"
    file.write_text("whole\ncut of")

    add_lines(file, lambda _: [])

    assert file.read_text() == "whole\ncut of"
