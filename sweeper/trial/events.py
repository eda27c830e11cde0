"""The history of an attempt, written as it happens. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.records import Event, Phase, PhaseBegun, Record, encode


def utc_now() -> datetime:
    """Returns the time of day, UTC."""
    return datetime.now(UTC)


class EventLog:
    """Appends one line per fact; a reader sees a fact as soon as it was told. For one thread.

    Args:
        file: The attempt's `events.jsonl`; created if need be.
        now: The clock that dates events.

    Raises:
        RunFolderError: The file has something in it: an attempt never runs twice.
        OSError: The file cannot be created.
    """

    def __init__(self, file: Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        self._sequence = 0
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        if os.fstat(self._descriptor).st_size > 0:
            os.close(self._descriptor)
            fault = Fault(
                what="this attempt has run before",
                where=str(file),
                expected="no events yet",
                hint="Another attempt takes another folder",
            )
            raise RunFolderError(fault)

    def emit(self, record: Record) -> None:
        """Appends the record.

        Raises:
            OSError: It could not be written, for instance because the disk is full. The file
                then ends with the last whole line, and the log can be tried again.
        """
        event = Event(sequence=self._sequence + 1, at=self._now(), record=record)
        # Half a character is written as JSON's escape of it, which comes back as it was.
        self._append(encode(event).encode("utf-8", "backslashreplace") + b"\n")
        self._sequence += 1
        if isinstance(record, PhaseBegun) and record.phase is Phase.CHECKPOINTING:
            # After a crash of the host there is no checkpoint without what had led to it.
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Waits until everything is on the disk.

        Raises:
            OSError: It is not.
        """
        try:
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _append(self, line: bytes) -> None:
        size = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise
