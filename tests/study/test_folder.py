"""The run folder is its user's alone, whatever the umask; one that was there keeps its mode."""

import os
import stat
from pathlib import Path

import pytest

from sweeper.study.folder import StudyFolder, sqlite_url


@pytest.fixture
def lax_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_for_its_user_only(tmp_path, lax_umask):
    folder = StudyFolder(tmp_path / "runs" / "rates")

    folder.make()

    assert mode(folder.path) == 0o700
    assert not folder.is_for_others


def test_one_that_was_there_keeps_its_mode(tmp_path, lax_umask):
    folder = StudyFolder(tmp_path / "runs" / "rates")
    folder.path.mkdir(parents=True, mode=0o750)

    folder.make()

    assert mode(folder.path) == 0o750
    assert folder.is_for_others


def test_what_has_a_meaning_in_urls_is_encoded_in_the_url_of_a_file():
    assert sqlite_url(Path("/a?b#c/100%20/\u00e9.db")) == "sqlite:////a%3Fb%23c/100%2520/%C3%A9.db"
