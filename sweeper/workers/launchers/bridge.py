"""An engine behind a process of its own, which holds the connection to the cluster.

Ray ends a process that has lost its cluster's head for a minute, takes over its signals and writes
on its terminal; a coordinator must live through all of that. So the libraries of Ray and Dask live
in `bridge_child`, and the coordinator asks it by lines of JSON. A child that died, or hangs, is
replaced; jobs know nothing of it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from sweeper.errors import Fault, PlanError, from_plain
from sweeper.study.run_options import DaskLauncher, RayLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.engine import EngineSilent, Job, JobState
from sweeper.workers.messages import Message, MessageReader, send

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 60.0
"""For the first connection to a cluster, imports included."""
ANSWER_SECONDS = 30.0
"""For the engine to take a job, or to say whether it has one."""
LOOK_SECONDS = 1.0
"""For which an answer about a job counts as fresh."""
PATIENCE_SECONDS = 2.0
"""For an answer about a job, before it counts as unknown."""
AGAIN_SECONDS = 10.0
"""Between two starts of the child."""
LEAVE_SECONDS = 5.0
"""For the child to give back its connection."""

_CHILD = (sys.executable, "-m", "sweeper.workers.launchers.bridge_child")


class BridgedEngine:
    """Implements `engine.Engine` for `kind: ray` and `kind: dask`.

    Args:
        options: `run.launcher` of the study.
        environ: What the child, and the engine's library in it, see as their environment.
        log: What the library writes goes there.

    Raises:
        UserError: The engine's package is not installed, or there is no cluster at the address.
    """

    def __init__(
        self, options: RayLauncher | DaskLauncher, *, environ: Mapping[str, str], log: Path
    ) -> None:
        self.kind: str = options.kind
        self._hello: Message = {"kind": options.kind, "options": options.model_dump(mode="json")}
        self._environ = dict(environ)
        self._log = log
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}
        self._child = self._started()
        self._connect(self._child)

    def submit(self, *, name: str, folder: AttemptFolder, command: tuple[str, ...]) -> str:
        """See `engine.Engine.submit`."""
        job: Message = {"name": name, "folder": str(folder.path), "argv": list(command)}
        return str(self._answer(job | {"ask": "submit"})["job"])

    def look(self, job_id: str) -> Job:
        """See `engine.Engine.look`."""
        with self._lock:
            look = self._looks.setdefault(job_id, _Look())
            if look.is_fresh():
                return look.job
            if look.asked is None:
                look.asked = self._live_child().ask({"ask": "look", "job": job_id})
            asked = look.asked
        try:
            answer = asked.result(PATIENCE_SECONDS)
        except TimeoutError:  # asked once; the answer is taken when it comes
            return look.set(_silent(f"{self.kind} has not answered"))
        except OSError as error:
            look.asked = None
            return look.set(_silent(str(error)))
        look.asked = None
        return look.set(Job(state=JobState(str(answer["state"])), detail=str(answer["detail"])))

    def find(self, name: str) -> str | None:
        """See `engine.Engine.find`."""
        found = self._answer({"ask": "find", "name": name})["job"]
        return None if found is None else str(found)

    def cancel(self, job_id: str) -> None:
        """See `engine.Engine.cancel`."""
        with self._lock:
            self._live_child().ask({"ask": "cancel", "job": job_id})

    def close(self) -> None:
        """See `engine.Engine.close`."""
        self._child.close()

    def _connect(self, child: _Child) -> None:
        try:
            answer = child.connected.result(CONNECT_SECONDS)
        except (TimeoutError, OSError) as error:
            child.close()
            said = f"{self.kind} cannot be reached: {error or 'no answer'}; see {self._log}"
            raise PlanError(Fault(what=said, where="run.launcher.address")) from error
        if (fault := answer.get("fault")) is not None:
            child.close()
            assert isinstance(fault, dict)
            raise from_plain(fault)

    def _answer(self, asked: Message) -> Message:
        with self._lock:
            child = self._live_child()
            answer = child.ask(asked)
        try:
            return answer.result(ANSWER_SECONDS)
        except TimeoutError:
            child.kill()  # what it was asked must not be done later
            raise EngineSilent(f"{self.kind} did not answer in {ANSWER_SECONDS:g} s") from None

    def _live_child(self) -> _Child:
        if not self._child.is_alive() and self._child.age_seconds() >= AGAIN_SECONDS:
            _log.warning("the connection to %s is made anew", self.kind)
            self._child.close()
            self._child = self._started()
        return self._child

    def _started(self) -> _Child:
        return _Child(self._hello, environ=self._environ, log=self._log)


class _Look:
    """What is known of a job; asked about by one thread at a time."""

    def __init__(self) -> None:
        self.job = _silent("not asked yet")
        self.asked: Future[Message] | None = None
        self._at = float("-inf")

    def is_fresh(self) -> bool:
        """Says whether the answer can stand for another one; an end stands for ever."""
        ended = self.job.state is JobState.ENDED
        return ended or time.monotonic() - self._at < LOOK_SECONDS

    def set(self, job: Job) -> Job:
        self.job, self._at = job, time.monotonic()
        return job


class _Child:
    """The coordinator's end of one child. Questions are answered in their order."""

    def __init__(self, hello: Message, *, environ: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                _CHILD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C in the terminal is the coordinator's to handle
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._born = time.monotonic()
        self._open: dict[int, Future[Message]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="engine's answers", daemon=True)
        self._reader.start()
        self.connected = self.ask(hello)

    def is_alive(self) -> bool:
        return self._process.poll() is None and self._reader.is_alive()

    def age_seconds(self) -> float:
        return time.monotonic() - self._born

    def ask(self, question: Message) -> Future[Message]:
        """Returns the answer to come; an `OSError` in it means that there is none."""
        answer: Future[Message] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = answer
            try:
                send(self._questions.fileno(), question | {"number": number})
            except (BrokenPipeError, ValueError):  # ValueError: closed on our side
                del self._open[number]
                answer.set_exception(EngineSilent("the connection to the engine is gone"))
        return answer

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Closes the pipe, which makes the child leave, and waits for it."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._questions.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._answers.close()

    def _read(self) -> None:
        reader = MessageReader(self._answers.fileno())
        while not reader.closed:
            for answer in reader.read(timeout_seconds=3600):
                self._settle(answer)
        with self._lock:
            left, self._open = list(self._open.values()), {}
        for unanswered in left:
            unanswered.set_exception(EngineSilent("the connection to the engine broke"))

    def _settle(self, answer: Message) -> None:
        with self._lock:
            asked = self._open.pop(int(str(answer["number"])))
        if (error := answer.get("error")) is not None:
            kind = OSError if answer["is_refused"] else EngineSilent
            asked.set_exception(kind(str(error)))
        else:
            asked.set_result(answer)


def _silent(detail: str) -> Job:
    return Job(state=JobState.UNKNOWN, detail=detail)
