"""What an engine runs on a node: `python -m sweeper.workers.job FOLDER`, one attempt, then the end.

It watches the trial as a supervisor does on the coordinator's host. It knows the attempt's folder
only: the order to run lies there, requests come and the end is told through it. Signal 15 is the
engine's wish to have the node back: the trial writes a checkpoint and ends, to be taken up again.
It does not watch its coordinator, which it may outlive. An engine that is not there to end its jobs
whatever happens holds them by a pipe (`--held`): when that closes, the trial is ended.

It imports neither torch nor pydantic, so that it starts at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pynvml

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.gpus import VARIABLE, DriverSession, Nvml
from sweeper.workers.handover import Request, read_order, read_request, take
from sweeper.workers.messages import MessageReader
from sweeper.workers.process_tree import adopt_orphans
from sweeper.workers.supervision import Cause
from sweeper.workers.watched_trial import Order, WatchedTrial, not_started

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
REQUEST_SECONDS = 1.0
"""Between two looks for a request."""

HELD = "--held"
"""Argument of a job whose standard input is a pipe that its engine's process on the node holds."""
HELD_GRACE_SECONDS = 2.0
"""For a trial whose engine is gone; another attempt may soon follow it."""

DONE = 0
REFUSED = 3
"""Exit status of a job whose attempt somebody else has taken."""

_NO_DEVICES = "NoDevFiles"
"""What Slurm writes for a job without GPUs in older versions."""


class NodeJob:
    """One attempt on a node, from its start until no process of it is left.

    Args:
        trial: What was started.
        grace_seconds: What the trial is given when the engine wants the node back.
        holder: The pipe that the job is held by, if it is.
    """

    def __init__(
        self,
        trial: WatchedTrial,
        folder: AttemptFolder,
        *,
        grace_seconds: float,
        holder: MessageReader | None = None,
    ) -> None:
        self._trial = trial
        self._folder = folder
        self._grace_seconds = grace_seconds
        self._holder = holder
        self._known: Request | None = None
        self._is_terminated = False

    def terminate(self, _number: int, _frame: FrameType | None) -> None:
        """Takes note of signal 15."""
        self._is_terminated = True

    def run(self) -> None:
        """Watches the trial to its end, which is then in its folder."""
        ask_at = 0.0
        while self._trial.look() is None:
            if time.monotonic() >= ask_at:
                ask_at = time.monotonic() + REQUEST_SECONDS
                self._obey(read_request(self._folder))
            if self._is_terminated:
                self._is_terminated = False
                said = "the engine asked the job to end (signal 15)"
                self._trial.stop(Cause.STOPPED, said, grace_seconds=self._grace_seconds)
            if self._holder is not None and self._holder.hung_up:
                self._holder = None
                said = "the engine's process that held the job is gone"
                self._trial.stop(Cause.SUPERVISOR_LOST, said, grace_seconds=HELD_GRACE_SECONDS)
            time.sleep(LOOK_SECONDS)

    def _obey(self, request: Request | None) -> None:
        if request is None or request == self._known:
            return
        self._known = request
        said = "the coordinator asked for it"
        if request.grace_seconds is None:
            self._trial.end(Cause.KILLED, said, grace_seconds=0.0)
        else:
            self._trial.stop(Cause.STOPPED, said, grace_seconds=request.grace_seconds)


def run_job(
    folder: AttemptFolder, *, nvml: Nvml = pynvml, holder: MessageReader | None = None
) -> int:
    """Runs the attempt unless somebody has taken it; returns the exit status.

    Args:
        folder: The attempt's.
        nvml: The driver's library.
        holder: The pipe that the job is held by, if it is.

    Raises:
        OSError: The folder cannot be read or written.
        ValueError: The order is none of ours.
    """
    order = read_order(folder)
    if not take(folder, by="the engine's job"):
        _log.warning("%s is taken already: nothing is run", folder.path)
        return REFUSED
    to_start = Order(
        folder=folder,
        argv=tuple(order.argv),
        environment={**order.environment, VARIABLE: _devices()},
        limits=order.limits,
    )
    try:
        trial = WatchedTrial(to_start, driver=DriverSession(nvml))
    except OSError as error:
        not_started(to_start, error).write(folder.supervision)
        return DONE
    grace_seconds = order.limits.grace_seconds
    _run(NodeJob(trial, folder, grace_seconds=grace_seconds, holder=holder))
    return DONE


def _run(job: NodeJob) -> None:
    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGTERM: job.terminate,
        signal.SIGINT: job.terminate,
    }
    for number, handler in handlers.items():
        signal.signal(number, handler)
    job.run()


def _devices() -> str:
    """Returns the GPUs that the engine gave the job; an empty list hides all others."""
    devices = os.environ.get(VARIABLE, "")
    return "" if devices == _NO_DEVICES else devices


def main() -> int:
    """Runs the job whose folder is the first argument; `--held` may follow."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    adopt_orphans()
    folder, *held = sys.argv[1:]
    holder = MessageReader(sys.stdin.fileno()) if held == [HELD] else None
    return run_job(AttemptFolder(Path(folder).resolve()), holder=holder)


if __name__ == "__main__":
    sys.exit(main())
