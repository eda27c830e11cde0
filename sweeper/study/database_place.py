"""Where a study's SQLite file is: in its run folder, or on this host's disk beside a shared folder.

SQLite needs locks and shared memory that network file systems do not give. A run folder on one
holds a small file instead, which says on which host the database is, and where.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sweeper.errors import Fault, RunFolderError, StudyConflict
from sweeper.files import write_whole
from sweeper.study.folder import StudyFolder

NETWORK_KINDS = frozenset(
    {
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "smbfs", "ceph", "9p", "afs"),
        *("glusterfs", "ocfs2", "gfs2", "orangefs", "pvfs2", "panfs", "wekafs", "coda", "ncpfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.cephfs", "fuse.beegfs", "fuse.rclone"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.mfs", "fuse.smbnetfs", "fuse.davfs2"),
        *("fuse.curlftpfs", "fuse.nfs", "davfs", "acfs", "stnfs", "fhgfs", "ibrix", "scoutfs"),
    }
)
"""Types of file systems, as the mount table has them, that several hosts may write at once."""

_DIGEST_LETTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of the mount table."""

    point: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFile:
    """Where the database is to be.

    Attributes:
        told: What the user should know of it; None where it is as usual.
    """

    file: Path
    told: str | None = None


def mount_table() -> tuple[Mount, ...]:
    """Returns what is mounted on this host, in the order in which it was."""
    found = psutil.disk_partitions(all=True)
    return tuple(Mount(point=each.mountpoint, kind=each.fstype) for each in found)


def network_kind(path: Path, mounts: Iterable[Mount]) -> str | None:
    """Returns the type of network file system that the path is on; None where it is on none."""
    place = path.resolve()
    above = [mount for mount in mounts if place.is_relative_to(mount.point)]
    # Of mounts on the same point the last one counts, which hides those before.
    found = max(enumerate(above), key=lambda each: (len(each[1].point), each[0]), default=None)
    return found[1].kind if found is not None and found[1].kind in NETWORK_KINDS else None


def database_file(folder: StudyFolder) -> Path:
    """Returns the study's SQLite file, which may not be there yet.

    Raises:
        StudyConflict: It is on another host's disk.
        RunFolderError: The file that says where it is is damaged.
    """
    if folder.database.exists():
        return folder.database.resolve()
    known = _noted(folder)
    if known is None:
        return folder.database.resolve()
    host, file = known
    if host != socket.gethostname():
        raise StudyConflict(
            Fault(
                what=f"the study's database is on a disk of host {host}",
                where=str(folder.path),
                got=f"this host, {socket.gethostname()}",
                hint=f"Work there; or, if that disk is lost, `sweeper rebuild {folder.path}` makes "
                "the database anew on this host. PostgreSQL serves several hosts",
            )
        )
    return file


def settle_database_file(
    folder: StudyFolder, environ: Mapping[str, str], *, mounts: Iterable[Mount] | None = None
) -> SettledFile:
    """Returns where the study's SQLite file is, or is to be made; notes it in the run folder.

    A folder for it on this host's disk is made, for this user only.

    Raises:
        StudyConflict: It is on another host's disk.
        RunFolderError: Run folder and state folder are both on network file systems, or cannot be
            written.
    """
    table = tuple(mount_table() if mounts is None else mounts)
    kind = network_kind(folder.path, table)
    if kind is None or _noted(folder) is not None:
        return SettledFile(file=database_file(folder))
    if folder.database.exists():
        told = f"{folder.database} is on a network file system ({kind}), where SQLite is not safe: "
        return SettledFile(file=folder.database, told=f"{told}it stays, for it is there already")
    file = local_file(folder, environ, table)
    note_database_file(folder, file)
    told = f"the run folder is on a network file system ({kind}): the database is {file}"
    return SettledFile(file=file, told=told)


def rebuilt_database_file(
    folder: StudyFolder, environ: Mapping[str, str], *, mounts: Iterable[Mount] | None = None
) -> Path:
    """Returns where a database that is made anew on this host belongs, whatever the folder notes.

    Raises:
        RunFolderError: See `settle_database_file`.
    """
    table = tuple(mount_table() if mounts is None else mounts)
    if folder.database.exists() or network_kind(folder.path, table) is None:
        return folder.database.resolve()
    return local_file(folder, environ, table)


def local_file(folder: StudyFolder, environ: Mapping[str, str], mounts: Iterable[Mount]) -> Path:
    """Returns the place of the folder's SQLite file on this host's disk, whose folder it makes.

    Raises:
        RunFolderError: See `settle_database_file`.
    """
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    if (kind := network_kind(state, mounts)) is not None:
        raise RunFolderError(
            Fault(
                what="a study's SQLite file needs a local disk, and none was found",
                where=str(folder.path),
                got=f"a network file system, as {state} is ({kind})",
                hint="Set XDG_STATE_HOME to a folder on a local disk of this host, or let "
                "run.storage name a PostgreSQL database",
            )
        )
    path = folder.path.resolve()
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:_DIGEST_LETTERS]
    place = state / "sweeper" / f"{path.name}-{digest}"
    try:
        place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unwritable(place, error) from error
    return place / folder.database.name


def note_database_file(folder: StudyFolder, file: Path) -> None:
    """Writes into the run folder on which host the database is, and where.

    Raises:
        RunFolderError: It cannot be written.
    """
    text = json.dumps({"host": socket.gethostname(), "path": str(file)}, indent=1)
    try:
        write_whole(folder.database_note, text)
    except OSError as error:
        raise _unwritable(folder.database_note, error) from error


def _noted(folder: StudyFolder) -> tuple[str, Path] | None:
    try:
        plain = json.loads(folder.database_note.read_bytes())
        return str(plain["host"]), Path(plain["path"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            Fault(
                what="the file that says where the database is is damaged",
                where=str(folder.database_note),
                hint='It holds {"host": HOST, "path": FILE}. `sweeper rebuild` makes both anew',
            )
        ) from error


def _unwritable(place: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        Fault(
            what="the place of the database cannot be written", where=str(place), got=error.strerror
        )
    )
