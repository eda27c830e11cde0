"""The process beside each slot's trials: `python -m sweeper.workers.supervisor`.

It takes JSON-line commands on standard input and answers on standard output:

    {"command": "start", "folder": …, "argv": […], "environment": {…}, "limits": {…}, "warm": …}
    {"command": "stop", "grace_seconds": …}      an orderly end: checkpoint, then exit; a checkpoint
                                                 that is being written then is waited for
    {"command": "kill"}                          an end at once
    {"command": "renew", "seconds": …}           the trial may go on for so long, and ends in order
                                                 if this is not said again; twice as long: at once
    {"command": "exit"}                          end the trial, if one runs, and leave

    {"event": "waiting", "folder": …}            it starts when what it is forked from has loaded
    {"event": "notice", "folder": …, "text": …}  something worth a line
    {"event": "started", "folder": …, "pid": …, "started_at": …}
    {"event": "ended", "folder": …, "supervision": {…}}      no process of the trial is left

When its standard input closes, the coordinator is gone: the trial is ended and the supervisor
leaves, within 5 seconds. It lives through one trial after another, never two at a time; those that
may be warm are forked from a template that it keeps, see `warm_start`.
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
from sweeper.workers.gpus import DriverSession, Nvml
from sweeper.workers.limits import TrialLimits
from sweeper.workers.liveness import uptime_seconds
from sweeper.workers.messages import Message, MessageReader, send
from sweeper.workers.process_tree import adopt_orphans
from sweeper.workers.supervision import Cause, Supervision
from sweeper.workers.warm_start import WarmStart
from sweeper.workers.watched_trial import (
    Order,
    WatchedTrial,
    called_off,
    not_started,
    start_cold,
)

LOOK_SECONDS = 0.1
IDLE_SECONDS = 1.0
LAST_GRACE_SECONDS = 2.0
"""For a trial whose coordinator is gone."""
LEAVE_SECONDS = 4.5
"""After which the supervisor leaves even if killed processes have not disappeared yet."""
_ASKED = "the coordinator asked for it"


class _Lease:
    """For how long the trial may go on without a word from the coordinator, which may be frozen."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = uptime_seconds() + seconds

    def enforce(self, trial: WatchedTrial) -> None:
        """Ends the trial once the lease is over."""
        late_seconds = uptime_seconds() - self._until
        detail = f"its coordinator has not renewed its lease of {self._seconds:g} s"
        if late_seconds >= self._seconds:
            trial.end(Cause.KILLED, detail, grace_seconds=0.0)
        elif late_seconds >= 0:
            grace_seconds = min(self._seconds, TrialLimits().grace_seconds)
            trial.stop(Cause.STOPPED, detail, grace_seconds=grace_seconds)


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
        self._driver = DriverSession(nvml)
        self._trial: WatchedTrial | None = None
        self._waiting: Order | None = None
        self._warm_start = WarmStart()
        self._leave_by: float | None = None
        self._lease: _Lease | None = None
        self.terminated = False
        """Set from a signal handler: end the trial and leave."""

    def run(self) -> None:
        """Serves until told to leave, or until the coordinator is gone."""
        while self._trial is not None or self._leave_by is None:
            wait_seconds = LOOK_SECONDS if self._trial or self._waiting else IDLE_SECONDS
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
        self._call_off(cause, detail)
        if self._trial is not None:
            self._trial.end(cause, detail, grace_seconds=LAST_GRACE_SECONDS)

    def close(self) -> None:
        """Ends what it keeps besides trials."""
        self._warm_start.close()

    def _obey(self, command: Message) -> None:
        match command["command"]:
            case "start" if self._leave_by is not None or self._commands.hung_up:
                pass  # nobody waits for the answer: another supervisor may have the attempt
            case "start":
                self._take(_order(command), warm=bool(command.get("warm")))
            case "stop" if self._waiting is not None:
                self._call_off(Cause.STOPPED, _ASKED)
            case "kill" if self._waiting is not None:
                self._call_off(Cause.KILLED, _ASKED)
            case "stop" if self._trial is not None:
                grace_seconds = float(str(command["grace_seconds"]))
                self._trial.stop(Cause.STOPPED, _ASKED, grace_seconds=grace_seconds)
            case "kill" if self._trial is not None:
                self._trial.end(Cause.KILLED, _ASKED, grace_seconds=0.0)
            case "renew" if self._trial is not None or self._waiting is not None:
                self._lease = _Lease(float(str(command["seconds"])))
            case "stop" | "kill" | "renew":
                pass  # it ended meanwhile, which is nobody's mistake
            case "exit":
                self.leave(Cause.STOPPED, "the coordinator closed its slots")
            case other:
                raise ValueError(f"unknown command {other!r}")

    def _take(self, order: Order, *, warm: bool) -> None:
        assert self._trial is None, "one trial at a time"
        assert self._waiting is None, "one trial at a time"
        if warm:
            self._warm_start.prepare(order)
        if warm and self._warm_start.is_loading:
            self._waiting = order
            self._report({"event": "waiting", "folder": str(order.folder.path)})
        else:
            self._start(order, warm=warm)

    def _call_off(self, cause: Cause, detail: str) -> None:
        """Ends an attempt that has not started."""
        if self._waiting is not None:
            order, self._waiting, self._lease = self._waiting, None, None
            self._report_end(order.folder.path, called_off(cause, detail))

    def _start(self, order: Order, *, warm: bool) -> None:
        start = self._warm_start.start if warm else start_cold
        try:
            self._trial = WatchedTrial(
                order, driver=self._driver, start=start, besides=self._warm_start.processes
            )
        except OSError as error:
            self._pass_on_notices(order.folder.path)  # the end is the last that is said of it
            self._report_end(order.folder.path, not_started(order, error))
            return
        self._pass_on_notices(order.folder.path)
        self._report(
            {
                "event": "started",
                "folder": str(order.folder.path),
                "pid": self._trial.pid,
                "started_at": self._trial.started_at,
            }
        )

    def _look(self) -> None:
        self._warm_start.look()
        if self._waiting is not None and not self._warm_start.is_loading:
            order, self._waiting = self._waiting, None
            self._start(order, warm=True)
        if self._trial is None:
            return
        self._pass_on_notices(self._trial.folder)
        if self._lease is not None:
            self._lease.enforce(self._trial)
        supervision = self._trial.look()
        if supervision is None and self._leave_by is not None:
            late = time.monotonic() >= self._leave_by
            supervision = self._trial.supervision() if late else None
        if supervision is not None:
            folder, self._trial, self._lease = self._trial.folder, None, None
            self._report_end(folder, supervision)

    def _pass_on_notices(self, folder: Path) -> None:
        while self._warm_start.notices:
            text = self._warm_start.notices.pop(0)
            self._report({"event": "notice", "folder": str(folder), "text": text})

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
    try:
        supervisor.run()
    finally:
        supervisor.close()


if __name__ == "__main__":
    main()
