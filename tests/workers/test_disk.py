from __future__ import annotations

import shutil

from sweeper.workers.disk import folder_bytes, free_bytes


def test_a_folder_holds_the_bytes_of_every_file_below_it(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "one").write_bytes(b"x")
    (tmp_path / "a" / "two").write_bytes(b"xx")
    (tmp_path / "a" / "b" / "four").write_bytes(b"xxxx")

    assert folder_bytes(tmp_path) == 7


def test_what_a_link_points_to_is_not_in_the_folder(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "large").write_bytes(b"x" * 100_000)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "elsewhere")

    assert folder_bytes(tmp_path / "mine") < 1000


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert folder_bytes(tmp_path / "no") == 0


def test_what_is_free_is_asked_of_the_file_system_the_folder_will_be_on(tmp_path, monkeypatch):
    asked = []
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or real(path))

    assert free_bytes(tmp_path / "not" / "yet") > 0
    assert asked == [tmp_path]


def test_a_file_system_that_does_not_answer_is_no_full_one(tmp_path, monkeypatch):
    def refuse(_path):
        raise OSError

    monkeypatch.setattr(shutil, "disk_usage", refuse)

    assert free_bytes(tmp_path) is None
