"""One coordinator per study and run folder, or several workers, one on each host.

Whoever is alone holds the lock on the run folder's coordinator file; workers share it, and each
holds that of its host. The kernel gives a lock back when its holder ends, however it ends. The
files' content is for people, and for the message that another one gets.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from sweeper.errors import Fault, RunFolderError, StudyBusy
from sweeper.store.claims import Owner
from sweeper.study.folder import StudyFolder
from sweeper.workers.liveness import birth, host_name


@contextlib.contextmanager
def only_coordinator(folder: StudyFolder) -> Iterator[Owner]:
    """Makes the run folder, and this process its only coordinator until the block is left.

    Yields:
        This process, as the owner of the cells it will claim.

    Raises:
        StudyBusy: Another process coordinates the study.
        RunFolderError: The folder cannot be made, or not be written.
    """
    owner = _this_process("local")
    with _opened(folder, folder.coordinator) as file:
        if not _lock(folder, file, fcntl.LOCK_EX):
            raise StudyBusy(_already_run(folder, file))
        with _described(folder, file, owner):
            yield owner


@contextlib.contextmanager
def one_of_several(folder: StudyFolder) -> Iterator[Owner]:
    """Makes the run folder, and this process the worker of its host until the block is left.

    Yields:
        This process, as the owner of the cells it will claim.

    Raises:
        StudyBusy: A worker of this host is at it, or a coordinator that is to be alone.
        RunFolderError: The folder cannot be made, or not be written.
    """
    owner = _this_process("worker")
    with (
        _opened(folder, folder.coordinator) as shared,
        _opened(folder, folder.worker(owner.host)) as file,
    ):
        if not _lock(folder, shared, fcntl.LOCK_SH):
            raise StudyBusy(_run_alone(folder, shared))
        if not _lock(folder, file, fcntl.LOCK_EX):
            raise StudyBusy(_has_worker(folder, file))
        with _described(folder, file, owner):
            yield owner


def _this_process(worker: str) -> Owner:
    pid = os.getpid()
    born = birth(pid)
    assert born is not None, "this process runs"
    return Owner(worker=worker, host=host_name(), pid=pid, started_at=born)


@contextlib.contextmanager
def _opened(folder: StudyFolder, path: Path) -> Iterator[TextIO]:
    """Opens the file; a full disk is no reason to end otherwise than one did."""
    with _as_run_folder_error(folder):
        folder.make()
        file = path.open("a+", encoding="utf-8")
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()


def _lock(folder: StudyFolder, file: TextIO, kind: int) -> bool:
    """Takes the lock if nobody holds one that is in its way; says whether it did."""
    with _as_run_folder_error(folder):
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def tell_begun(folder: StudyFolder, owner: Owner) -> None:
    """Lets the coordinator file say that its owner, who is alone, now runs the study's trials.

    It is longer than what it is written over, so that a reader who comes in between finds either,
    or nothing that can be read. A full disk is no reason to end.
    """
    with contextlib.suppress(OSError), folder.coordinator.open("r+", encoding="utf-8") as file:
        file.write(json.dumps(_plain(owner) | {"has_begun": True}))


def has_begun(folder: StudyFolder, pid: int) -> bool:
    """Says whether that process is alone in the run folder, and runs the study's trials."""
    try:
        plain = json.loads(folder.coordinator.read_text("utf-8"))
        return bool(plain["pid"] == pid and plain["has_begun"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _plain(owner: Owner) -> dict[str, object]:
    return {"host": owner.host, "pid": owner.pid, "started_at": owner.started_at}


@contextlib.contextmanager
def _described(folder: StudyFolder, file: TextIO, owner: Owner) -> Iterator[None]:
    """Lets the file name the owner, until the block is left."""
    with _as_run_folder_error(folder):
        file.truncate(0)
        file.write(json.dumps(_plain(owner)))
        file.flush()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.truncate(0)


@contextlib.contextmanager
def _as_run_folder_error(folder: StudyFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the run folder cannot be written",
                where=str(folder.path),
                got=f"{error.strerror}: {error.filename or folder.coordinator}",
                expected="a folder on a disk with room, that this user may write in",
                hint="Make it writable, or put the study file where a folder `runs` can be made",
            )
        ) from error


def _already_run(folder: StudyFolder, file: TextIO) -> Fault:
    workers = [name for path in folder.workers if (name := _worker_at(folder, path)) is not None]
    if workers:
        return Fault(
            what="the study is already being run, by workers",
            where=str(folder.path),
            got=", ".join(workers),
            hint="`sweeper worker STUDY` joins them; for anything else wait until they have ended, "
            "or end them with Ctrl-C",
        )
    return Fault(
        what="the study is already being run",
        where=str(folder.path),
        got=f"a coordinator, {_named(file)}",
        hint="`sweeper status` shows how far it is; wait for it, or end it with Ctrl-C",
    )


def _run_alone(folder: StudyFolder, file: TextIO) -> Fault:
    return Fault(
        what="the study is already being run, by a coordinator that is alone in its run folder",
        where=str(folder.path),
        got=f"a coordinator, {_named(file)}",
        hint="End it with Ctrl-C and start `sweeper worker STUDY` there too: its trials go on from "
        "their checkpoints",
    )


def _has_worker(folder: StudyFolder, file: TextIO) -> Fault:
    return Fault(
        what="a worker of this host runs the study already",
        where=str(folder.path),
        got=f"a worker, {_named(file)}",
        expected="one worker on each host; it uses all of the host's slots in run.slots",
        hint="`sweeper status` shows how far it is; wait for it, or end it with Ctrl-C",
    )


def _worker_at(folder: StudyFolder, path: Path) -> str | None:
    """Returns whom a worker's file names; None if it has ended."""
    with path.open(encoding="utf-8") as file:
        return None if _lock(folder, file, fcntl.LOCK_SH) else _named(file)


def _named(file: TextIO) -> str:
    """Returns host and process; its holder may not have written them yet."""
    file.seek(0)
    try:
        plain = json.loads(file.read())
        return f"process {plain['pid']} on {plain['host']}"
    except (ValueError, KeyError, TypeError):
        return "which has just begun"
