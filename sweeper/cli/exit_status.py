"""What a command's exit status means."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of every command."""

    DONE = 0
    OUR_FAILURE = 1
    USER_MISTAKE = 2
    CRITERIA_NOT_MET = 3
    INTERRUPTED = 130
