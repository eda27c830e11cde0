"""Attempts that run as jobs of an engine and have outlived their coordinator: taken up, not ended.

Such an attempt has its order in its folder (`workers/handover.py`). Only the run of the study takes
it up: it asks the engine how the job stands, becomes its cell's owner under the next fencing
number, and follows it from its first event, of which the record keeps each once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.errors import Fault, PlanError, StudyConflict
from sweeper.store.claims import Claim
from sweeper.store.recovery import LiveAttempt
from sweeper.study.folder import StudyFolder
from sweeper.study.run_options import LocalLauncher, RunOptions
from sweeper.sweep.adopting import has_job
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.handover import read_job
from sweeper.workers.launcher import Launcher, Running
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot

UNNAMED = Slot(name="", device=None, engine=True)
"""For a job that no lane has taken up yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A running attempt that was another coordinator's."""

    claim: Claim
    running: Running


class Jobs:
    """Those that no lane has taken up yet; shared by the lanes' threads."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._lock = threading.Lock()

    def add(self, jobs: Iterable[Job]) -> None:
        """Adds jobs, in the order in which they are to be taken up."""
        with self._lock:
            self._waiting += jobs

    def next(self) -> Job | None:
        """Takes one out; None when there is none left."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None


def still_running(
    live: Iterable[LiveAttempt], folder: StudyFolder, launcher: Launcher
) -> tuple[Job, ...]:
    """Returns the engine's jobs among these attempts, none of which has a living owner.

    Raises:
        StudyConflict: One of them is another engine's than the launcher's, so nobody can tell
            whether it still runs.
    """
    jobs, faults = [], []
    for attempt in live:
        place = AttemptFolder(folder.path / attempt.claim.folder)
        if not has_job(place):
            continue
        running = launcher.attach(place, UNNAMED, TrialLimits())
        if running is None:
            faults.append(_of_another_engine(attempt.claim, place))
        else:
            jobs.append(Job(claim=attempt.claim, running=running))
    if faults:
        raise StudyConflict(*faults)
    return tuple(jobs)


def refuse_workers(run: RunOptions) -> None:
    """Accepts the study for a worker, one of several coordinators: its trials are its own children.

    Raises:
        PlanError: An engine runs them, for one coordinator, which any host can take over.
    """
    if run.launcher.kind != "local":
        raise PlanError(
            Fault(
                what="workers run trials on their own hosts; this study hands them to an engine",
                where="run.launcher.kind",
                got=run.launcher.kind,
                expected="local",
                hint="`sweeper run` on one host uses all nodes of the engine; jobs outlive it, and "
                "the next `sweeper run` takes them up",
            )
        )


def lanes(run: RunOptions, *, cells: int) -> tuple[Slot, ...]:
    """Returns a slot for each job that may be handed to the engine at once.

    Args:
        cells: How many there are to run; without `jobs` every one of them gets a lane, and the
            engine's own queue decides when it runs.
    """
    engine = run.launcher
    assert not isinstance(engine, LocalLauncher)
    count = cells if engine.jobs is None else min(engine.jobs, cells)
    return tuple(
        Slot(name=f"{engine.kind} {place}", device=None, engine=True)
        for place in range(1, count + 1)
    )


def _of_another_engine(claim: Claim, place: AttemptFolder) -> Fault:
    job = read_job(place)
    named = "a job that nobody wrote down" if job is None else f"job {job.id} of {job.engine}"
    return Fault(
        what=f"trial {claim.cell} was handed to another launcher and may still run there",
        where="run.launcher",
        got=named,
        hint="Put the launcher back as it was until that job has ended, or end it there first",
    )
