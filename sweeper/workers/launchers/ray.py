"""Attempts as detached Ray actors, which outlive the coordinator that started them.

An actor starts the job beside itself (`held_job`) and says how it stands. It is never restarted,
and leaves when its job is done, so that its resources are free for the next. Its name is the job's.

Runs in `bridge_child` and, as far as `RayJob` goes, on the nodes.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from sweeper.errors import Fault, PlanError
from sweeper.study.run_options import RayLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.gpus import VARIABLE
from sweeper.workers.launchers.engine import Engine, Job, JobState
from sweeper.workers.launchers.held_job import GRACE_SECONDS, HeldJob, ending

NAMESPACE = "sweeper"
ANSWER_SECONDS = 0.5
"""For an actor to answer."""
LINGER_SECONDS = 3.0
"""After its job's end, in which an actor can still say how it ended."""
CANCEL_SECONDS = GRACE_SECONDS + 30.0
"""For an actor to end its job, before Ray ends the actor and with it the job."""

_Ray = Any
"""The package, which gives no types to what it makes, or what it gives: an actor, an answer."""


class RayJob:
    """The actor: one job, from its start on the node until its end.

    Args:
        folder: The attempt's, as a path.
        command: What to run.
        has_gpus: Whether Ray gives it any; where not, Ray leaves all of the node's visible.

    Raises:
        OSError: The job cannot be started, which Ray tells as the actor's death.
    """

    def __init__(self, folder: str, command: list[str], *, has_gpus: bool) -> None:
        environment = {} if has_gpus else {VARIABLE: ""}
        self._job = HeldJob(AttemptFolder(Path(folder)), command, environment=environment)
        threading.Thread(target=self._leave, daemon=True).start()

    def status(self) -> int | None:
        """See `HeldJob.status`."""
        return self._job.status()

    def end(self) -> None:
        """See `HeldJob.end`; returns when it is done."""
        self._job.end()

    def _leave(self) -> None:
        ray = import_module("ray")
        actor = ray.get_runtime_context().current_actor
        self._job.wait()
        time.sleep(LINGER_SECONDS)
        ray.kill(actor)


def connected_to_ray(options: RayLauncher) -> Engine:
    """Returns the running Ray cluster as an engine.

    Raises:
        PlanError: Ray is not installed, or there is no cluster.
    """
    try:
        ray = import_module("ray")
    except ImportError:
        raise PlanError(_missing()) from None
    try:
        ray.init(
            address=options.address or "auto",
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ray.exceptions.RayError, RuntimeError, ValueError, OSError) as error:
        raise PlanError(_no_cluster(options.address, error)) from error
    return RayCluster(options, ray)


class RayCluster:
    """Implements `engine.Engine` with the driver that this process is. For one thread."""

    kind = "ray"

    def __init__(self, options: RayLauncher, ray: _Ray) -> None:
        self._options = options
        self._ray = ray
        self._actors: dict[str, _Ray] = {}
        self._asked: dict[str, _Ray] = {}
        self._begun: set[str] = set()

    def submit(self, *, name: str, folder: AttemptFolder, command: tuple[str, ...]) -> str:
        """See `engine.Engine.submit`."""
        actor = self._ray.remote(RayJob).options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=4,  # it can say how it stands while it ends its job
            num_cpus=self._options.cpus,
            num_gpus=self._options.gpus,
        )
        has_gpus = self._options.gpus > 0
        try:
            self._actors[name] = actor.remote(str(folder.path), list(command), has_gpus=has_gpus)
        except ValueError:
            if self.find(name) is None:  # else it was taken before, and the answer lost
                raise
        return name

    def look(self, job_id: str) -> Job:
        """See `engine.Engine.look`."""
        try:
            actor = self._actor(job_id)
        except ValueError:
            detail = f"Ray has no actor {job_id} any more"
            return Job(state=JobState.ENDED, detail=detail)
        asked = self._asked.pop(job_id, None) or actor.status.remote()
        ready, _ = self._ray.wait([asked], timeout=ANSWER_SECONDS)
        if not ready:
            self._asked[job_id] = asked
            return self._without_answer(job_id)
        try:
            status = self._ray.get(asked)
        except self._ray.exceptions.ActorUnavailableError as error:
            return Job(state=JobState.UNKNOWN, detail=f"Ray says: {_one_line(error)}")
        except self._ray.exceptions.RayActorError as error:
            return self._ended(job_id, f"Ray says: {_one_line(error)}")
        self._begun.add(job_id)
        if status is None:
            return Job(state=JobState.RUNNING, detail="Ray runs it")
        return self._ended(job_id, f"Ray's actor says that its job {ending(status)}")

    def find(self, name: str) -> str | None:
        """See `engine.Engine.find`."""
        try:
            self._actors[name] = self._ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None
        return name

    def cancel(self, job_id: str) -> None:
        """See `engine.Engine.cancel`."""
        try:
            actor = self._actor(job_id)
        except ValueError:
            return
        if job_id in self._begun:
            ended = actor.end.remote()
            threading.Thread(target=_insist, args=(self._ray, actor, ended), daemon=True).start()
        else:
            self._ray.kill(actor)

    def close(self) -> None:
        """See `engine.Engine.close`."""
        self._ray.shutdown()

    def _actor(self, name: str) -> _Ray:
        """Returns the handle of a living actor.

        Raises:
            ValueError: Ray knows none of that name.
        """
        if name not in self._actors:
            self._actors[name] = self._ray.get_actor(name, namespace=NAMESPACE)
        return self._actors[name]

    def _without_answer(self, job_id: str) -> Job:
        if job_id in self._begun:
            return Job(state=JobState.UNKNOWN, detail="Ray's actor does not answer")
        return Job(state=JobState.WAITING, detail="Ray has not begun it")

    def _ended(self, job_id: str, detail: str) -> Job:
        self._actors.pop(job_id, None)
        self._begun.discard(job_id)
        return Job(state=JobState.ENDED, detail=detail)


def _insist(ray: _Ray, actor: _Ray, ended: _Ray) -> None:
    with contextlib.suppress(ray.exceptions.RayError):
        ray.wait([ended], timeout=CANCEL_SECONDS)
        ray.kill(actor)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]


def _missing() -> Fault:
    return Fault(
        what="the Ray launcher needs the package ray",
        where="run.launcher",
        hint="Install it, here and on every node: pip install 'sweeper[ray]'",
    )


def _no_cluster(address: str | None, error: Exception) -> Fault:
    return Fault(
        what=f"there is no Ray cluster that can be reached: {_one_line(error)}",
        where="run.launcher.address",
        got=address or "the one that this host belongs to",
        hint="Start one with `ray start --head`, or name its head as `address: HOST:PORT`; "
        "this process needs the token that its nodes have: RAY_AUTH_TOKEN_PATH",
    )
