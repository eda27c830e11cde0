"""One coordinator per study: whoever holds the lock on the run folder's coordinator file.

The kernel gives the lock back when its holder ends, however it ends. The file's content is for
people, and for the message that a second coordinator gets.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import TextIO

from sweeper.errors import Fault, RunFolderError, StudyBusy
from sweeper.store.claims import Owner
from sweeper.study.folder import StudyFolder
from sweeper.workers.liveness import host_name, started_at


@contextlib.contextmanager
def only_coordinator(folder: StudyFolder) -> Iterator[Owner]:
    """Makes the run folder, and this process its only coordinator until the block is left.

    Yields:
        This process, as the owner of the cells it will claim.

    Raises:
        StudyBusy: Another process coordinates the study.
        RunFolderError: The folder cannot be made, or not be written.
    """
    with _as_run_folder_error(folder):
        folder.path.mkdir(parents=True, exist_ok=True)
        file = folder.coordinator.open("a+", encoding="utf-8")
    with contextlib.closing(_Quietly(file)):
        _lock(folder, file)
        owner = _this_process()
        with _as_run_folder_error(folder):
            _describe(file, owner)
        yield owner


class _Quietly:
    """Empties and closes the file; a full disk is no reason to end otherwise than one did."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.truncate(0)
        with contextlib.suppress(OSError):
            self._file.close()


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


def _lock(folder: StudyFolder, file: TextIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        raise StudyBusy(
            Fault(
                what="the study is already being run",
                where=str(folder.path),
                got=f"a coordinator, {_named(file.read())}",
                hint="`sweeper status` shows how far it is; wait for it, or end it with Ctrl-C",
            )
        ) from error


def _this_process() -> Owner:
    pid = os.getpid()
    began = started_at(pid)
    assert began is not None, "this process runs"
    return Owner(worker="local", host=host_name(), pid=pid, started_at=repr(began))


def _describe(file: TextIO, owner: Owner) -> None:
    file.truncate(0)
    file.write(json.dumps({"host": owner.host, "pid": owner.pid, "started_at": owner.started_at}))
    file.flush()


def _named(text: str) -> str:
    """Returns host and process; its holder may not have written them yet."""
    try:
        plain = json.loads(text)
        return f"process {plain['pid']} on {plain['host']}"
    except (ValueError, KeyError, TypeError):
        return "which has just begun"
