"""What the exit status of a trial's process means. Standard library only."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """How the process ends; the outcome itself is the last line of the events."""

    ORDERLY = 0
    """The outcome was said: completed, stopped by a condition, or preempted."""
    TROUBLE = 1
    """The outcome was said: an exception, or a result that is not sound."""
    REFUSED = 2
    """The folder has seen an attempt already; nothing was touched."""
    DISK_FULL = 74
    """The events could not be written for want of space, so the outcome was not said."""
