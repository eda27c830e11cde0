"""How a rank tells its records to the process that writes them down: lines over a pipe.

A line is that of `events.jsonl`; whoever writes it down numbers and dates it anew.
"""

from __future__ import annotations

import os

from sweeper.records import Event, Record, decode, encode
from sweeper.trial.events import utc_now

_CHUNK_BYTES = 65536


class Teller:
    """The rank's end. For one thread.

    Args:
        descriptor: The pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._sequence = 0

    @classmethod
    def on_standard_output(cls) -> Teller:
        """Takes standard output for itself: what libraries print goes to standard error."""
        descriptor = os.dup(1)
        os.dup2(2, 1)
        return cls(descriptor)

    def tell(self, record: Record) -> None:
        """Writes the record; returns once the pipe has it.

        Raises:
            BrokenPipeError: Nobody listens.
        """
        self._sequence += 1
        event = Event(sequence=self._sequence, at=utc_now(), record=record)
        line = encode(event).encode("utf-8", "backslashreplace") + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]


class Listener:
    """The other end. What a rank said before it died is heard; half a line is not.

    Args:
        descriptor: The pipe; not owned.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.closed = False
        """Whether the rank closed its end and all that it said was heard."""

    def hear(self) -> list[Record]:
        """Returns what has come in; waits if nothing has.

        Raises:
            ValueError: A line is no record.
        """
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self.closed = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [decode(line.decode()).record for line in lines]
