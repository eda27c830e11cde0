"""What the launchers over an engine share: one job is one attempt, and it outlives its coordinator.

How the attempt goes is in its folder, see `handover` and `job`.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.environment import trial_environment
from sweeper.workers.gpus import VARIABLE
from sweeper.workers.handover import NodeOrder, SubmittedJob, read_job, write_job, write_order
from sweeper.workers.launchers.engine import Engine, Patience, job_name
from sweeper.workers.launchers.engine_running import EngineRunning
from sweeper.workers.launchers.local import TRIAL_COMMAND
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot

_log = logging.getLogger(__name__)

JOB_COMMAND = (sys.executable, "-m", "sweeper.workers.job")
"""What runs on a node; the attempt's folder is added as the last argument."""


class EngineLauncher:
    """Implements `launcher.Launcher` over an engine.

    Args:
        trial_command: What runs an attempt on its node.
        patience: How long is waited for what is late.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        trial_command: tuple[str, ...] = TRIAL_COMMAND,
        patience: Patience | None = None,
    ) -> None:
        self._engine = engine
        self._trial_command = trial_command
        self._patience = patience or Patience()
        self._started: list[EngineRunning] = []
        self._lock = threading.Lock()

    def start(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> EngineRunning:
        """See `launcher.Launcher.start`. Returns once the job is submitted, not when it runs.

        An engine that does not answer is asked again at every `poll`, now and then.
        """
        folder = AttemptFolder(folder.path.resolve())
        write_order(folder, self._order(folder, slot, limits))
        running = EngineRunning(
            self._engine,
            folder,
            submit=lambda: self._submit(folder),
            limits=limits,
            patience=self._patience,
        )
        running.submit()
        return self._followed(running)

    def attach(
        self,
        folder: AttemptFolder,
        slot: Slot,  # noqa: ARG002 - part of the protocol
        limits: TrialLimits,
    ) -> EngineRunning | None:
        """See `launcher.Launcher.attach`."""
        folder = AttemptFolder(folder.path.resolve())
        if not folder.order.exists():
            return None
        job = read_job(folder)
        if job is not None and job.engine != self._engine.kind:
            return None
        return self._followed(
            EngineRunning(
                self._engine,
                folder,
                job_id=None if job is None else job.id,
                limits=limits,
                patience=self._patience,
            )
        )

    def close(self) -> None:
        """See `launcher.Launcher.close`."""
        with self._lock:
            running = [started for started in self._started if started.poll() is None]
            self._started.clear()
        for attempt in running:
            attempt.kill()
        patience = self._patience
        give_up = time.monotonic() + patience.obey_seconds + patience.engine_seconds
        while any(attempt.poll() is None for attempt in running):
            if time.monotonic() >= give_up:
                _log.warning("jobs of %s are left to it", self._engine.kind)
                break
            time.sleep(0.1)
        self._engine.close()

    def _order(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> NodeOrder:
        environment = trial_environment(folder, slot)
        del environment[VARIABLE]  # the engine says on the node which devices the job has
        return NodeOrder(
            argv=(*self._trial_command, str(folder.path)), environment=environment, limits=limits
        )

    def _submit(self, folder: AttemptFolder) -> str:
        name = job_name(folder)
        command = (*JOB_COMMAND, str(folder.path))
        job_id = self._engine.submit(name=name, folder=folder, command=command)
        try:
            write_job(folder, SubmittedJob(engine=self._engine.kind, id=job_id, name=name))
        except OSError as error:  # the job is on its way: a later coordinator finds it by its name
            _log.warning("%s: %s", folder.job, error)
        return job_id

    def _followed(self, running: EngineRunning) -> EngineRunning:
        with self._lock:
            self._started = [one for one in self._started if not one.has_ended]
            self._started.append(running)
        return running
