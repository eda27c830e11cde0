"""A folder that appears whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.data.writing import whole_folder
from sweeper.errors import RunFolderError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_appears_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "prepared"
    with whole_folder(out, mark="mark") as folder:
        (folder / "mark").write_text("x")
        assert not out.exists()
    assert names(out) == ["mark"]
    assert names(out.parent) == ["prepared"]


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "out", mark="mark") as folder:
        (folder / "mark").write_text(str(1 // 0))
    assert names(tmp_path) == []


def test_an_older_folder_of_ours_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mark").write_text("old")
    (out / "stale").write_text("old")
    with whole_folder(out, mark="mark") as folder:
        (folder / "mark").write_text("new")
        assert (out / "mark").read_text() == "old"
    assert names(out) == ["mark"]
    assert (out / "mark").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_an_error_leaves_the_older_folder_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mark").write_text("old")
    with pytest.raises(ZeroDivisionError), whole_folder(out, mark="mark"):
        _ = 1 // 0
    assert (out / "mark").read_text() == "old"


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with (
        pytest.raises(RunFolderError, match="something here that is not prepared data"),
        whole_folder(tmp_path, mark="mark"),
    ):
        pass
    assert names(tmp_path) == ["thesis.tex"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(RunFolderError, match="the folder cannot be written"),
        whole_folder(tmp_path / "file" / "out", mark="mark"),
    ):
        pass
