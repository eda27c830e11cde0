"""What became of an attempt whose supervisor or coordinator is gone."""

from __future__ import annotations

import contextlib
import logging
import time
from datetime import UTC, datetime

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.liveness import host_name, is_alive
from sweeper.workers.process_tree import end_marked
from sweeper.workers.supervision import Cause, Supervision

_log = logging.getLogger(__name__)

LEAVING_SECONDS = 10.0
"""A supervisor whose coordinator is gone leaves within five; the rest is a loaded machine's."""


def aftermath(folder: AttemptFolder) -> Supervision:
    """Returns how an attempt ended that a coordinator before this one had started on this host.

    A supervisor that is just ending the trial is waited for. When this returns, no process of
    the attempt is left, or the detail names those that could not be ended. Files that a crash of
    the whole host damaged count as not there.
    """
    give_up = time.monotonic() + LEAVING_SECONDS
    beat = last_beat(folder)
    while beat and _is_supervised(beat) and time.monotonic() < give_up:
        if folder.supervision.exists():
            break
        time.sleep(0.1)
    return recorded_end(folder) or without_supervisor(
        folder, "neither its coordinator nor its supervisor saw the end"
    )


def without_supervisor(folder: AttemptFolder, detail: str) -> Supervision:
    """Ends what a dead supervisor left behind and records the end in its place.

    Args:
        folder: The attempt's.
        detail: What is known about the supervisor's end.
    """
    left = end_marked(folder.path)
    supervision = last_seen(
        last_beat(folder), cause=Cause.SUPERVISOR_LOST, detail=detail + _still_there(left)
    )
    with contextlib.suppress(OSError):  # the caller has the value; the file is for later readers
        supervision.write(folder.supervision)
    return supervision


def last_beat(folder: AttemptFolder) -> Heartbeat | None:
    """Returns the attempt's last sign of life; None where there is none that can be read."""
    try:
        return Heartbeat.read(folder.heartbeat)
    except ValueError as error:
        _log.warning("%s: %s", folder.heartbeat, error)
        return None


def recorded_end(folder: AttemptFolder) -> Supervision | None:
    """Returns how the attempt ended by its supervisor; None where there is nothing to read."""
    try:
        return Supervision.read(folder.supervision)
    except ValueError as error:
        _log.warning("%s: %s", folder.supervision, error)
        return None


def is_being_ended(folder: AttemptFolder) -> bool:
    """Says whether the attempt's supervisor lives, and has not said yet how the attempt ended."""
    beat = last_beat(folder)
    return beat is not None and _is_supervised(beat) and not folder.supervision.exists()


def _is_supervised(beat: Heartbeat) -> bool:
    started = beat.supervisor_started_at
    return started is not None and bool(is_alive(host_name(), beat.supervisor_pid, started))


def last_seen(beat: Heartbeat | None, *, cause: Cause, detail: str) -> Supervision:
    """Returns the supervision of an attempt whose end nobody watched, from its last sign of life.

    Args:
        beat: None: it may never have begun.
        cause: What is known of the end.
        detail: Likewise, as a sentence.
    """
    now = datetime.now(UTC)
    return Supervision(
        cause=cause,
        detail=detail,
        pid=beat.pid if beat else None,
        started_at=beat.started_at if beat else None,
        exit_status=None,
        signal=None,
        wall_seconds=beat.wall_seconds if beat else 0.0,
        peak_memory_bytes=beat.peak_memory_bytes if beat else 0,
        supervisor_pid=beat.supervisor_pid if beat else None,
        supervisor_started_at=beat.supervisor_started_at if beat else None,
        began_at=beat.began_at if beat else now,
        ended_at=now,
    )


def _still_there(left: tuple[int, ...]) -> str:
    return f"; processes {', '.join(map(str, left))} could not be ended" if left else ""
