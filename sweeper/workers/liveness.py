"""Whether a process that was named earlier still lives.

A process id alone says little: it is given out again. Together with the host and the time the
process started it names one process.
"""

from __future__ import annotations

import socket

import psutil

CLOCK_SLACK_SECONDS = 2.0
"""Start times are derived from the boot time, which follows small corrections of the clock."""


def host_name() -> str:
    """Returns this host's name."""
    return socket.gethostname()


def started_at(pid: int) -> float | None:
    """Returns when process `pid` of this host started, in seconds of the epoch; None if gone."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def is_alive(host: str, pid: int, process_started_at: float) -> bool | None:
    """Says whether the process still runs; None when it is another host's and nobody can tell.

    A process that ended but was not yet collected by its parent (a zombie) is dead.

    Args:
        host: Where it ran, from `host_name`.
        pid: Its process id there.
        process_started_at: Its start time, from `started_at`.
    """
    if host != host_name():
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - process_started_at) <= CLOCK_SLACK_SECONDS
    except psutil.NoSuchProcess:
        return False
