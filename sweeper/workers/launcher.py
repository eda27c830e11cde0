"""The seam between a study and where its attempts run.

To add a launcher: one file in `launchers/` that keeps these promises, and its name in the list
of `tests/contracts/test_launchers.py`.
"""

from __future__ import annotations

from typing import Protocol

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Supervision


class Running(Protocol):
    """An attempt that was started. Its methods are called by one thread at a time."""

    @property
    def pid(self) -> int | None:
        """Process id of the trial's first process on its host; None before it has started."""
        ...

    @property
    def started_at(self) -> float | None:
        """Start time of that process, see `liveness.started_at`."""
        ...

    def poll(self) -> Supervision | None:
        """Returns how the attempt ended, or None while any process of it lives.

        Does not wait. Returns the same value ever after. An attempt whose supervisor died ends
        too, with the cause `supervisor_lost`: its processes are ended first.
        """
        ...

    def stop(self, *, grace_seconds: float) -> None:
        """Asks for an orderly end; what is left after the grace is killed. Does not wait.

        A checkpoint that is being written then is given `checkpoint_seconds` more of the limits.
        """
        ...

    def renew(self, *, seconds: float) -> None:
        """Lets the attempt go on for so long, after which it ends by itself, in order.

        That is for a coordinator that is frozen, while somebody else takes its trials for lost. An
        attempt of which it was never said goes on; so does one whose job outlives coordinators.
        """
        ...

    def kill(self) -> None:
        """Ends every process of the attempt at once. Does not wait."""
        ...


class Launcher(Protocol):
    """Starts attempts on slots. `start` may be called from several threads, one per slot."""

    def start(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> Running:
        """Starts the attempt whose spec lies in `folder`, and watches it.

        The slot must be free: the last attempt started on it has ended.

        Raises:
            OSError: No supervisor can be started.
        """
        ...

    def attach(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> Running | None:
        """Takes up an attempt that an earlier coordinator started, or may have started.

        Returns:
            The attempt, whose job may still run or has left its supervision. None where there is
            nothing to take up, now or later: trials on this host ended with their coordinator, and
            a job that was never submitted cannot start any more.
        """
        ...

    def close(self) -> None:
        """Ends what still runs and gives back everything. The launcher is of no use then."""
        ...
