"""Attempts as Dask tasks that outlive the client which submitted them.

A task starts the job beside its worker (`held_job`) and waits for it; a worker that closes, also
for want of its scheduler, ends its jobs in order. Its key is the job's name. Dask would run a task
again whose worker died: the job refuses that (`handover.take`), and it counts as lost at once.

Runs in `bridge_child` and, as far as `run_job` and `end_job` go, on the workers.
"""

from __future__ import annotations

import contextlib
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from sweeper.errors import Fault, PlanError
from sweeper.study.run_options import DaskLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.engine import Engine, Job, JobState
from sweeper.workers.launchers.held_job import HeldJob, ending

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
"""For the scheduler to answer."""
TAKE_SECONDS = 10.0
"""For the scheduler to have a task that was submitted."""
WATCH_SECONDS = 0.5
"""Between two looks at a job from its worker."""

_CLOSING = frozenset({"closing", "closed", "failed"})
"""States of a worker that ends, for want of its scheduler, too."""
_WAITING = frozenset({"waiting", "no-worker", "queued", "processing"})
"""States of a task that has not ended; Dask says `processing` of one that waits on a worker."""
_EXTENSION = "sweeper"

_Dask = Any
"""What the package gives, which has no types of its own: a client, a future, a worker."""


def run_job(name: str, folder: str, command: list[str]) -> str:
    """The task: runs the job to its end; returns how it ended.

    Raises:
        OSError: The job cannot be started.
    """
    worker = import_module("distributed").get_worker()
    worker.log_event(_topic(name), {"worker": worker.address})
    job = HeldJob(AttemptFolder(Path(folder)), command)
    held = _held(worker)
    held[name] = job
    try:
        return ending(_watched(job, worker))
    finally:
        del held[name]


def _watched(job: HeldJob, worker: _Dask) -> int:
    """Waits for the job, and ends it where its worker closes; returns its status."""
    while (status := job.wait(timeout_seconds=WATCH_SECONDS)) is None:
        if worker.status.name in _CLOSING:
            job.end()
    return status


def end_job(name: str, dask_worker: _Dask) -> None:
    """Ends the job if this worker holds it. Does not wait.

    Args:
        dask_worker: Given by Dask, by this name.
    """
    if (job := _held(dask_worker).get(name)) is not None:
        threading.Thread(target=job.end, daemon=True).start()


def _held(worker: _Dask) -> dict[str, HeldJob]:
    """Returns the worker's own note of the jobs that it holds."""
    held: dict[str, HeldJob] = worker.extensions.setdefault(_EXTENSION, {})
    return held


def _topic(name: str) -> str:
    return f"{name} begins"


def connected_to_dask(options: DaskLauncher) -> Engine:
    """Returns the running Dask cluster as an engine.

    Raises:
        PlanError: Dask is not installed, no scheduler is named, or none answers.
    """
    try:
        config = import_module("dask.config")
        import_module("distributed")
    except ImportError:
        raise PlanError(_missing()) from None
    address = options.address or config.get("scheduler-address", None)
    if address is None:
        raise PlanError(_nameless())
    try:
        client = _client(address)
    except (OSError, ValueError) as error:
        raise PlanError(_no_scheduler(address, error)) from error
    return DaskCluster(options, address, client)


def _client(address: str) -> _Dask:
    """Returns a client that is connected.

    Raises:
        OSError: Nobody answers there.
        ValueError: It is no address.
    """
    connect = import_module("distributed").Client
    return connect(address, timeout=CONNECT_SECONDS, set_as_default=False)


class DaskCluster:
    """Implements `engine.Engine` with the client that this process is. For one thread."""

    kind = "dask"

    def __init__(self, options: DaskLauncher, address: str, client: _Dask) -> None:
        self._options = options
        self._address = address
        self._connected = client
        self._futures: dict[str, _Dask] = {}

    def submit(self, *, name: str, folder: AttemptFolder, command: tuple[str, ...]) -> str:
        """See `engine.Engine.submit`."""
        future = self._client.submit(
            run_job,
            name,
            str(folder.path),
            list(command),
            key=name,
            pure=False,
            retries=0,
            resources=dict(self._options.resources) or None,
        )
        import_module("distributed").fire_and_forget(future)
        self._futures[name] = future
        give_up = time.monotonic() + TAKE_SECONDS
        while self._state(name) is None:
            if time.monotonic() >= give_up:
                future.cancel()
                raise TimeoutError(f"the scheduler did not take the task in {TAKE_SECONDS:g} s")
            time.sleep(0.02)
        return name

    def look(self, job_id: str) -> Job:
        """See `engine.Engine.look`."""
        state = self._state(job_id)
        if state in _WAITING:
            return self._unfinished(job_id, state)
        if state in {"memory", "erred"}:
            return self._ended(job_id, self._last_words(self._future(job_id), state))
        if state is None:
            return self._ended(job_id, "Dask knows no such task any more")
        return Job(state=JobState.UNKNOWN, detail=f"Dask says {state}")

    def find(self, name: str) -> str | None:
        """See `engine.Engine.find`."""
        return name if self._state(name) in _WAITING else None

    def cancel(self, job_id: str) -> None:
        """See `engine.Engine.cancel`."""
        worker = self._worker(job_id)
        if worker is None:
            self._future(job_id).cancel()
        else:  # in a thread of its own: a worker that hangs does not answer
            threading.Thread(target=self._end, args=(job_id, worker), daemon=True).start()

    def close(self) -> None:
        """See `engine.Engine.close`."""
        self._connected.close()

    @property
    def _client(self) -> _Dask:
        """The client; a new one where the last has given up its scheduler."""
        if self._connected.status in {"closing", "closed"}:
            self._futures.clear()
            self._connected = _client(self._address)
        return self._connected

    def _ask(self, question: str, **arguments: object) -> _Dask:
        client = self._client
        asked = getattr(client.scheduler, question)
        return client.sync(asked, callback_timeout=ANSWER_SECONDS, **arguments)

    def _state(self, name: str) -> str | None:
        state: str | None = self._ask("get_task_status", keys=[name])[name]
        return state

    def _worker(self, name: str) -> str | None:
        """Returns the worker on which the task began, None if it has not."""
        events = self._ask("events", topic=_topic(name))
        return str(events[0][1]["worker"]) if events else None

    def _future(self, name: str) -> _Dask:
        """Returns the task's future; whoever holds one is told how it ended."""
        if name not in self._futures:
            self._futures[name] = import_module("distributed").Future(name, self._client)
        return self._futures[name]

    def _end(self, name: str, worker: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a dead one has no job
            self._client.run(end_job, name, workers=[worker])

    def _unfinished(self, name: str, state: str) -> Job:
        future = self._future(name)
        worker = self._worker(name)
        if worker is None:
            return Job(state=JobState.WAITING, detail=f"Dask says {state}")
        if worker in self._ask("ncores", workers=None):
            return Job(state=JobState.RUNNING, detail=f"Dask runs it on {worker}")
        future.cancel()  # or it runs the task again, which the job refuses
        return self._ended(name, f"Dask lost the worker {worker}")

    def _last_words(self, future: _Dask, state: str) -> str:
        if state == "memory":
            said = future.result(timeout=ANSWER_SECONDS)
            return f"Dask's task says that its job {said}"
        error = future.exception(timeout=ANSWER_SECONDS)
        return f"Dask says {type(error).__name__}: {_one_line(error)}"

    def _ended(self, name: str, detail: str) -> Job:
        self._futures.pop(name, None)
        return Job(state=JobState.ENDED, detail=detail)


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:600]


def _missing() -> Fault:
    return Fault(
        what="the Dask launcher needs the package distributed",
        where="run.launcher",
        hint="Install it, here and on every worker: pip install 'sweeper[dask]'",
    )


def _nameless() -> Fault:
    return Fault(
        what="no Dask scheduler is named",
        where="run.launcher.address",
        expected="address: tcp://HOST:PORT, or the variable DASK_SCHEDULER_ADDRESS",
        hint="`dask scheduler` starts one and says its address",
    )


def _no_scheduler(address: str, error: Exception) -> Fault:
    return Fault(
        what=f"no Dask scheduler answers: {_one_line(error)}",
        where="run.launcher.address",
        got=address,
        hint="Start it with `dask scheduler`, or name another one",
    )
