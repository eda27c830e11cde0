"""A real Dask of a scheduler and two workers on this host, started by its own commands.

Workers are started without a nanny, which would restart one that died.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
from waiting import within

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.heartbeat import Heartbeat

PACKAGE = "distributed"
WORKERS = ("first", "second")
THREADS = 4
_PROGRAM = str(Path(sys.executable).with_name("dask"))
_ALIKE = ("--host=127.0.0.1", "--no-dashboard")


def why_not() -> str | None:
    """Says why none can be started here, or nothing."""
    if importlib.util.find_spec(PACKAGE) is None:
        return "needs distributed: pip install 'sweeper[dask]'"
    return None


class DaskCluster:
    """Usage: `with DaskCluster() as dask:`, then clients of `dask.address`.

    Each worker has one of the resource GPU, and more threads than that.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dask-"))
        self.address = ""
        self.environ = {"DASK_TEMPORARY_DIRECTORY": str(self.folder)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._start_scheduler()
            for worker in WORKERS:
                self.start_worker(worker)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes of the cluster, upon which its jobs end, and removes its folder."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_worker(self, name: str) -> None:
        """Starts the worker, again after it was killed; it takes tasks a moment later."""
        place = f"--local-directory={self.folder / name}"
        resources = (f"--nthreads={THREADS}", "--resources=GPU=1", "--memory-limit=0")
        self._start(name, "worker", self.address, "--no-nanny", f"--name={name}", place, *resources)

    def kill_worker_of(self, folder: AttemptFolder) -> str:
        """Kills the worker that holds the attempt's job, with signal 9; returns its name."""
        return self._end(self._worker_of(folder), signal.SIGKILL)

    def stop_worker_of(self, folder: AttemptFolder) -> str:
        """Has it leave in order, which it does when its tasks are done; returns its name."""
        return self._end(self._worker_of(folder), signal.SIGTERM)

    @contextlib.contextmanager
    def scheduler_frozen(self) -> Iterator[None]:
        """Has a scheduler that takes connections and answers nothing."""
        scheduler = self._processes["scheduler"]
        scheduler.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            scheduler.send_signal(signal.SIGCONT)

    def _worker_of(self, folder: AttemptFolder) -> str:
        beat = Heartbeat.read(folder.heartbeat)
        assert beat is not None
        above = {process.pid for process in psutil.Process(beat.supervisor_pid).parents()}
        (name,) = (name for name, worker in self._processes.items() if worker.pid in above)
        return name

    def _end(self, name: str, number: signal.Signals) -> str:
        self._processes[name].send_signal(number)
        self._processes[name].wait(60)
        return name

    def _start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        self._start("scheduler", "scheduler", "--port=0", f"--scheduler-file={file}", "--no-show")
        out = self.folder / "scheduler.out"
        self.address = within(60, lambda: _address_in(file), seen=lambda: out.read_text("utf-8"))

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [_PROGRAM, *arguments, *_ALIKE],
                env={**os.environ, **self.environ},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


def _address_in(scheduler_file: Path) -> str | None:
    """Returns the scheduler's address once its file is there and whole."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(scheduler_file.read_text("utf-8"))["address"]
    return None
