"""The process beside each slot's trials: `python -m sweeper.workers.supervisor`.

It takes JSON-line commands on standard input and answers on standard output:

    {"command": "start", "folder": …, "argv": […], "environment": {…}, "limits": {…}}
    {"command": "stop", "grace_seconds": …}      an orderly end: checkpoint, then exit; a checkpoint
                                                 that is being written then is waited for
    {"command": "kill"}                          an end at once
    {"command": "exit"}                          end the trial, if one runs, and leave

    {"event": "started", "folder": …, "pid": …, "started_at": …}
    {"event": "ended", "folder": …, "supervision": {…}}      no process of the trial is left

When its standard input closes, the coordinator is gone: the trial is ended and the supervisor
leaves, within 5 seconds. It lives through one trial after another, never two at a time.
It imports neither torch nor pydantic, so that it starts at once.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType

import pynvml

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.gpus import Nvml
from sweeper.workers.limits import TrialLimits
from sweeper.workers.messages import Message, MessageReader, send
from sweeper.workers.process_tree import adopt_orphans
from sweeper.workers.supervision import Cause, Supervision
from sweeper.workers.watched_trial import Order, WatchedTrial, not_started

LOOK_SECONDS = 0.1
IDLE_SECONDS = 1.0
LAST_GRACE_SECONDS = 2.0
"""For a trial whose coordinator is gone."""
LEAVE_SECONDS = 4.5
"""After which the supervisor leaves even if killed processes have not disappeared yet."""
_ASKED = "the coordinator asked for it"


class Supervisor:
    """Commands in, events out, at most one trial.

    Args:
        commands: Descriptor to read commands from.
        events: Descriptor to write events to.
        nvml: The driver's library.
    """

    def __init__(self, *, commands: int, events: int, nvml: Nvml = pynvml) -> None:
        self._commands = MessageReader(commands)
        self._events = events
        self._nvml = nvml
        self._trial: WatchedTrial | None = None
        self._leave_by: float | None = None
        self.terminated = False
        """Set from a signal handler: end the trial and leave."""

    def run(self) -> None:
        """Serves until told to leave, or until the coordinator is gone."""
        while self._trial is not None or self._leave_by is None:
            wait_seconds = LOOK_SECONDS if self._trial else IDLE_SECONDS
            if self._commands.closed:
                time.sleep(LOOK_SECONDS)
            commands = self._commands.read(timeout_seconds=wait_seconds)
            if self.terminated:
                self.leave(Cause.STOPPED, "the supervisor was told to end (signal 15)")
            for command in commands:
                self._obey(command)
            if self._commands.closed:
                self.leave(Cause.COORDINATOR_LOST, "the coordinator is gone")
            self._look()

    def leave(self, cause: Cause, detail: str) -> None:
        """Ends the trial, if one runs, and then the supervisor."""
        if self._leave_by is not None:
            return
        self._leave_by = time.monotonic() + LEAVE_SECONDS
        if self._trial is not None:
            self._trial.end(cause, detail, grace_seconds=LAST_GRACE_SECONDS)

    def _obey(self, command: Message) -> None:
        match command["command"]:
            case "start" if self._leave_by is not None or self._commands.hung_up:
                pass  # nobody waits for the answer: another supervisor may have the attempt
            case "start":
                self._start(_order(command))
            case "stop" if self._trial is not None:
                grace_seconds = float(str(command["grace_seconds"]))
                self._trial.stop(Cause.STOPPED, _ASKED, grace_seconds=grace_seconds)
            case "kill" if self._trial is not None:
                self._trial.end(Cause.KILLED, _ASKED, grace_seconds=0.0)
            case "stop" | "kill":
                pass  # it ended meanwhile, which is nobody's mistake
            case "exit":
                self.leave(Cause.STOPPED, "the coordinator closed its slots")
            case other:
                raise ValueError(f"unknown command {other!r}")

    def _start(self, order: Order) -> None:
        assert self._trial is None, "one trial at a time"
        try:
            self._trial = WatchedTrial(order, nvml=self._nvml)
        except OSError as error:
            self._report_end(order.folder.path, not_started(order, error))
            return
        self._report(
            {
                "event": "started",
                "folder": str(order.folder.path),
                "pid": self._trial.pid,
                "started_at": self._trial.started_at,
            }
        )

    def _look(self) -> None:
        if self._trial is None:
            return
        supervision = self._trial.look()
        if supervision is None and self._leave_by is not None:
            late = time.monotonic() >= self._leave_by
            supervision = self._trial.supervision() if late else None
        if supervision is not None:
            folder, self._trial = self._trial.folder, None
            self._report_end(folder, supervision)

    def _report_end(self, folder: Path, supervision: Supervision) -> None:
        plain = supervision.to_plain()
        self._report({"event": "ended", "folder": str(folder), "supervision": plain})

    def _report(self, event: Message) -> None:
        try:
            send(self._events, event)
        except BrokenPipeError:
            self.leave(Cause.COORDINATOR_LOST, "the coordinator is gone")


def _order(command: Message) -> Order:
    argv, environment, limits = command["argv"], command["environment"], command["limits"]
    assert isinstance(argv, list)
    assert isinstance(environment, dict)
    assert isinstance(limits, dict)
    return Order(
        folder=AttemptFolder(Path(str(command["folder"]))),
        argv=tuple(str(part) for part in argv),
        environment={str(name): str(value) for name, value in environment.items()},
        limits=TrialLimits.from_plain(limits),
    )


def main(nvml: Nvml = pynvml) -> None:
    """Runs a supervisor on standard input and output until it may leave."""
    adopt_orphans()
    supervisor = Supervisor(commands=sys.stdin.fileno(), events=sys.stdout.fileno(), nvml=nvml)

    def terminate(_number: int, _frame: FrameType | None) -> None:
        supervisor.terminated = True

    signal.signal(signal.SIGTERM, terminate)
    supervisor.run()


if __name__ == "__main__":
    main()
