"""What the exit status of a command that failed means; how a run ended says `RunStatus`."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of any command, beside 0."""

    OUR_FAILURE = 1
    USER_MISTAKE = 2
