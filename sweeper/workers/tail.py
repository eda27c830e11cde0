"""Reads `events.jsonl` as it grows, whole lines only. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from sweeper.errors import EventsDamaged, Fault
from sweeper.records import Event, decode


class EventTail:
    """A reader that remembers how far it came. For one thread.

    A line that is still being written is left for the next call. The file may not exist yet.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self._sequence = 0

    def read(self) -> tuple[Event, ...]:
        """Returns the events that were completed since the last call, in order.

        Raises:
            EventsDamaged: The file became shorter, was replaced, holds a line that is not one of
                ours, or leaves out a sequence number. Whole events before the faulty place are
                returned first; from then on every call raises.
        """
        events: list[Event] = []
        for line in self._whole_lines():
            try:
                events.append(self._event(line))
            except EventsDamaged:
                if events:
                    break
                raise
            self._offset += len(line) + 1
            self._sequence += 1
        return tuple(events)

    def _whole_lines(self) -> list[bytes]:
        try:
            with self._file.open("rb") as stream:
                self._check(os.fstat(stream.fileno()))
                stream.seek(self._offset)
                text = stream.read()
        except FileNotFoundError:
            if self._identity is None:
                return []
            raise self._damaged("the file is gone") from None
        return text.split(b"\n")[:-1]

    def _check(self, status: os.stat_result) -> None:
        identity = (status.st_dev, status.st_ino)
        if self._identity is not None and identity != self._identity:
            raise self._damaged("another file took its place")
        if status.st_size < self._offset:
            raise self._damaged(f"cut to {status.st_size} bytes after {self._offset} were read")
        self._identity = identity

    def _event(self, line: bytes) -> Event:
        try:
            event = decode(line.decode("utf-8"))
        except ValueError as error:
            raise self._damaged(str(error)) from error
        if event.sequence != self._sequence + 1:
            what = f"event {event.sequence} stands where event {self._sequence + 1} belongs"
            raise self._damaged(what)
        return event

    def _damaged(self, what: str) -> EventsDamaged:
        return EventsDamaged(
            Fault(
                what=what,
                where=str(self._file),
                hint="Only the trial itself writes this file; the attempt cannot be used",
            )
        )
