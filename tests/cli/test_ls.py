"""`sweeper ls`: which studies there are below a folder, and where they stand."""

import json
import sqlite3

import pytest


@pytest.fixture
def place(studies, tmp_path, monkeypatch):
    """Two folders with a study each, one in mid-run by this process, one not begun."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    studies.found(tmp_path / "old")
    studies.begin(tmp_path / "new")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(ran):
    return [line.split() for line in ran.out.splitlines()]


def test_studies_are_listed_with_their_trials_the_latest_change_first(sweeper, place):
    ran = sweeper("ls")

    head, first, second = (line.rstrip() for line in ran.out.splitlines())
    assert ran.status == 0
    assert head.split() == ["study", "state", "trials", "last", "change", "(UTC)", "folder"]
    assert first.split()[:2] == ["rates", "running"]
    assert "2 completed, 1 stopped, 1 lost, 1 failed, 1 running, 3 waiting" in first
    assert first.endswith("new/runs/rates")
    assert second.split()[:4] == ["rates", "open", "9", "waiting"]
    assert second.endswith("old/runs/rates")
    assert ran.err == "Next: sweeper status new/runs/rates\n"


def test_json_has_a_study_each_with_counts_and_times(sweeper, place):
    first, second = json.loads(sweeper("ls", place, "--json").out)

    assert (first["state"], first["counts"]["completed"]) == ("running", 2)
    assert second == {
        "name": "rates",
        "state": "open",
        "counts": {"waiting": 9},
        "changed_at": second["changed_at"],
        "folder": str(place / "old" / "runs" / "rates"),
        "problem": None,
    }
    assert second["changed_at"] < first["changed_at"]
    assert second["changed_at"].endswith("+00:00")


def test_a_study_that_is_done_has_ended(sweeper, finished):
    assert rows(sweeper("ls"))[1][:2] == ["rates", "ended"]


def test_a_run_folder_is_its_own_only_study(sweeper, place):
    assert len(rows(sweeper("ls", "old/runs/rates"))) == 2


def test_a_study_that_cannot_be_read_hides_no_other(sweeper, place):
    connection = sqlite3.connect(place / "old" / "runs" / "rates" / "study.db")
    connection.execute("UPDATE sweeper_schema SET version = 999")
    connection.commit()
    connection.close()

    ran = sweeper("ls")

    assert ran.status == 0
    assert [row[1] for row in rows(ran)[1:]] == ["running", "unreadable"]
    assert "version 999" in ran.err


def test_hidden_folders_are_not_searched(sweeper, place):
    (place / "old").rename(place / ".old")

    assert len(rows(sweeper("ls"))) == 2


def test_where_there_is_no_study_that_is_said(sweeper, tmp_path):
    ran = sweeper("ls", tmp_path)

    assert (ran.status, ran.out) == (0, f"There is no study below {tmp_path}\n")
    assert ran.err == "Next: sweeper init\n"
    assert json.loads(sweeper("ls", tmp_path, "--json").out) == []


def test_a_folder_that_does_not_exist_is_a_mistake(sweeper, tmp_path):
    ran = sweeper("ls", tmp_path / "nowhere")

    assert ran.status == 2
    assert "there is no such folder" in ran.err
