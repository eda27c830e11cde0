"""How long a trial has been silent, and in which phase. Standard library only."""

from __future__ import annotations

from pathlib import Path

from sweeper.records import Phase, PhaseBegun, decode


class Silence:
    """Follows the growth of an events file. A line that is no event still breaks the silence."""

    def __init__(self, events: Path, *, now: float) -> None:
        self._events = events
        self._grown_at = now
        self._size = 0
        self._rest = b""
        self._phase = Phase.LOADING

    @property
    def phase(self) -> Phase:
        """What the trial said last that it was busy with; loading before it said anything."""
        return self._phase

    def seconds(self, now: float) -> float:
        """Looks at the file and returns the seconds since it last grew."""
        fresh = self._fresh()
        if fresh:
            self._grown_at = now
            self._follow(fresh)
        return now - self._grown_at

    def _fresh(self) -> bytes:
        try:
            with self._events.open("rb") as stream:
                stream.seek(self._size)
                fresh = stream.read()
        except OSError:
            return b""
        self._size += len(fresh)
        return fresh

    def _follow(self, fresh: bytes) -> None:
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        for line in lines:
            if b'"phase"' in line:
                self._phase = _phase_of(line) or self._phase


def _phase_of(line: bytes) -> Phase | None:
    try:
        record = decode(line.decode("utf-8")).record
    except ValueError:
        return None
    return record.phase if isinstance(record, PhaseBegun) else None
