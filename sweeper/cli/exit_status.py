"""What the exit status of a command that failed means; how a run ended says `RunStatus`."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of any command, beside 0."""

    OUR_FAILURE = 1
    """Anything else."""
    USER_MISTAKE = 2
    """Something the user can mend."""
    CRITERIA_NOT_MET = 3
    """The command did what it was asked, and the study is not as it was to be; see `RunStatus`."""
    READER_LEFT = 141
    """The reader of standard output has left; what shells give a process that signal 13 ended."""
