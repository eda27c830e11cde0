"""JSON lines over a pipe, between a launcher and its supervisor. Standard library only."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Mapping

Message = dict[str, object]

_CHUNK_BYTES = 65536


class MessageReader:
    """Whole messages from a pipe, as they come. For one thread; does not own the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._rest = b""
        self.closed = False
        """Whether the other end is closed and nothing is left to read."""

    @property
    def hung_up(self) -> bool:
        """Whether nobody holds the other end any more, whatever is left to read."""
        return any(event & select.POLLHUP for _, event in self._poll.poll(0))

    def read(self, *, timeout_seconds: float) -> list[Message]:
        """Returns the messages that have come in, after waiting up to the timeout for the first.

        Raises:
            ValueError: A line is no JSON object.
        """
        if self.closed or not self._poll.poll(timeout_seconds * 1000):
            return []
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self.closed = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [_message(line) for line in lines]


def send(descriptor: int, message: Mapping[str, object]) -> None:
    """Writes one message.

    Raises:
        BrokenPipeError: The other end is closed.
    """
    line = json.dumps(message, allow_nan=False).encode("utf-8") + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


def _message(line: bytes) -> Message:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"not a message: {line[:200]!r}")  # noqa: TRY004 - the text is wrong
    return message
