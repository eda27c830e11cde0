"""Where a run folder is, and who may look into it. No network file system is here: the mount table
is given.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3

import pytest

from sweeper.errors import StudyConflict
from sweeper.report.listing import studies_below
from sweeper.report.standing import standing
from sweeper.store.store import StudyStore
from sweeper.study import database_place
from sweeper.study.database_place import Mount, database_file
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import rebuild

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


@pytest.fixture
def on_nfs(small, tmp_path, monkeypatch):
    """A small study on what the mount table calls an NFS, with state on a local disk."""
    place = tmp_path / "shared"
    table = (Mount(point="/", kind="ext4"), Mount(point=str(place), kind="nfs4"))
    monkeypatch.setattr(database_place, "mount_table", lambda: table)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return small(place)


def test_every_command_of_the_host_finds_the_database_and_another_host_s_is_told(
    on_nfs, recorder, tmp_path
):
    watching = recorder()

    assert on_nfs.run(observer=watching).status == 0

    file = database_file(on_nfs.folder)
    assert file.is_relative_to(tmp_path / "state")
    assert not on_nfs.folder.database.exists()
    told = [text for text in watching.messages if "network file system" in text]
    assert told == [f"the run folder is on a network file system (nfs4): the database is {file}"]
    assert standing(on_nfs.folder.path).counts == {"completed": 2}
    assert [study.problem for study in studies_below(tmp_path)] == [None]
    assert on_nfs.run().did_nothing

    note = on_nfs.folder.database_note
    note.write_text(json.dumps({"host": "node7", "path": str(file)}))
    with pytest.raises(StudyConflict, match="on a disk of host node7"):
        standing(on_nfs.folder.path)
    with pytest.raises(StudyConflict, match="on a disk of host node7"):
        on_nfs.run()
    assert "node7" in studies_below(tmp_path)[0].problem

    file.unlink()
    rebuild(on_nfs.folder, replace=False, observer=SilentObserver())

    assert database_file(on_nfs.folder) == file
    with StudyStore.read(f"sqlite:///{file}") as store:
        assert [row["outcome"] for row in store.trials()] == ["completed", "completed"]
    assert not on_nfs.folder.database.exists()


@pytest.mark.parametrize("name", ["what?x=1#y", '100%20 "q', "{0} 50%"])
def test_the_database_is_in_the_run_folder_whatever_characters_its_path_has(name, small, tmp_path):
    study = small(tmp_path / name)

    assert study.run().status == 0

    assert study.folder.database.is_file()
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert standing(study.folder.path).counts == {"completed": 2}
    assert [found.problem for found in studies_below(tmp_path)] == [None]
    with contextlib.closing(sqlite3.connect(study.folder.database)) as database:
        assert database.execute("SELECT count(*) FROM trials").fetchone() == (2,), "Optuna's"
    assert study.run().did_nothing

    study.folder.database.unlink()
    rebuild(study.folder, replace=False, observer=SilentObserver())

    assert study.folder.database.is_file()
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert standing(study.folder.path).counts == {"completed": 2}


def test_a_run_folder_that_others_may_look_into_is_told_of_once(study, recorder):
    study.folder.path.mkdir(parents=True)
    study.folder.path.chmod(0o755)
    first, second = recorder(), recorder()

    study.run(observer=first)
    study.run(observer=second)

    told = f"other users may look into the run folder; `chmod 700 {study.folder.path}` keeps"
    assert [told in message for message in first.messages].count(True) == 1
    assert not any(told in message for message in second.messages)
    assert study.folder.path.stat().st_mode & 0o777 == 0o755
