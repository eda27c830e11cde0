"""Where SQLite files go. No network file system is mounted here: the mount table is given."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from sweeper.errors import RunFolderError, StudyConflict
from sweeper.study.database_place import (
    Mount,
    database_file,
    mount_table,
    network_kind,
    rebuilt_database_file,
    settle_database_file,
)
from sweeper.study.folder import StudyFolder

ROOT = Mount(point="/", kind="ext4")


@pytest.fixture
def folder(tmp_path):
    shared = tmp_path / "shared"
    path = shared / "runs" / "rates"
    path.mkdir(parents=True)
    return StudyFolder(path)


@pytest.fixture
def shared(tmp_path):
    return [ROOT, Mount(point=str(tmp_path / "shared"), kind="nfs4")]


@pytest.fixture
def environ(tmp_path):
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/runs", "nfs4"),
        ("/home/mexico", None),
        ("/scratch/x", "lustre"),
        ("/scratch/local/x", None),
        ("/covered/x", None),
        ("/usr", None),
    ],
)
def test_the_deepest_and_the_last_of_the_mounts_above_a_path_counts(path, kind):
    mounts = [
        ROOT,
        Mount(point="/home/me", kind="nfs4"),
        Mount(point="/scratch", kind="lustre"),
        Mount(point="/scratch/local", kind="xfs"),
        Mount(point="/covered", kind="cifs"),
        Mount(point="/covered", kind="ext4"),
    ]

    assert network_kind(Path(path), mounts) == kind


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "fuse.sshfs", "9p", "afs"],
)
def test_a_network_file_system_is_told_by_its_type(kind):
    assert network_kind(Path("/mnt/x"), [ROOT, Mount(point="/mnt", kind=kind)]) == kind


def test_the_mount_table_of_this_host_has_a_root():
    assert any(mount.point == "/" for mount in mount_table())


def test_on_a_local_disk_the_database_is_in_the_run_folder(folder, environ):
    settled = settle_database_file(folder, environ, mounts=[ROOT])

    assert (settled.file, settled.told) == (folder.path / "study.db", None)
    assert not folder.database_note.exists()


def test_beside_a_network_file_system_it_is_on_a_local_disk_and_found_again(
    folder, shared, environ, tmp_path
):
    settled = settle_database_file(folder, environ, mounts=shared)

    assert settled.file.parent.parent == tmp_path / "state" / "sweeper"
    assert settled.file.parent.name.startswith("rates-")
    assert settled.told == (
        f"the run folder is on a network file system (nfs4): the database is {settled.file}"
    )
    assert stat.S_IMODE(settled.file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(settled.file.parent.parent.stat().st_mode) == 0o700
    assert json.loads(folder.database_note.read_text()) == {
        "host": socket.gethostname(),
        "path": str(settled.file),
    }
    assert database_file(folder) == settled.file
    again = settle_database_file(folder, {"XDG_STATE_HOME": "/elsewhere"}, mounts=shared)
    assert (again.file, again.told) == (settled.file, None)


def test_run_folders_of_one_name_have_databases_of_their_own(tmp_path, shared, environ):
    folders = [StudyFolder(tmp_path / "shared" / place / "rates") for place in ("one", "two")]
    files = []
    for folder in folders:
        folder.path.mkdir(parents=True)
        files.append(settle_database_file(folder, environ, mounts=shared).file)

    assert files[0] != files[1]


@pytest.mark.parametrize("given", [{}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_without_a_state_folder_it_is_in_the_home_s(folder, shared, tmp_path, monkeypatch, given):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    settled = settle_database_file(folder, given, mounts=shared)

    assert settled.file.is_relative_to(tmp_path / "home" / ".local" / "state" / "sweeper")


def test_without_any_local_disk_the_way_out_is_named(folder, shared, environ, tmp_path):
    everywhere = [*shared, Mount(point=str(tmp_path), kind="lustre")]

    with pytest.raises(RunFolderError, match=r"lustre.*XDG_STATE_HOME.*PostgreSQL"):
        settle_database_file(folder, environ, mounts=everywhere)

    assert not folder.database_note.exists()


def test_a_database_that_is_there_stays_and_is_warned_of(folder, shared, environ):
    folder.database.touch()

    settled = settle_database_file(folder, environ, mounts=shared)

    assert settled.file == folder.database
    assert "(nfs4), where SQLite is not safe: it stays" in settled.told


def test_another_host_is_told_where_it_is_and_what_to_do(folder, shared, environ):
    folder.database_note.write_text('{"host": "node7", "path": "/var/study.db"}')

    with pytest.raises(StudyConflict, match=r"a disk of host node7 .*sweeper rebuild"):
        database_file(folder)

    rebuilt = rebuilt_database_file(folder, environ, mounts=shared)
    assert rebuilt.is_relative_to(environ["XDG_STATE_HOME"])


def test_a_damaged_note_is_told(folder):
    folder.database_note.write_text("{")

    with pytest.raises(RunFolderError, match="says where the database is is damaged"):
        database_file(folder)
