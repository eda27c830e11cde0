"""An attempt that is an engine's job: what its folder and the engine say of it, put together.

The folder has the last word: what the node left there counts, whatever the engine says. That the
engine does not answer ends no attempt.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import last_beat, last_seen
from sweeper.workers.handover import Request, take, write_request
from sweeper.workers.launchers.engine import Engine, EngineSilent, Job, JobState, Patience, job_name
from sweeper.workers.limits import TrialLimits
from sweeper.workers.supervision import Cause, Supervision
from sweeper.workers.watched_trial import tail_of

_log = logging.getLogger(__name__)

FIND_SECONDS = 5.0
"""Between two questions about a job whose id is not known."""


class EngineRunning:
    """Implements `launcher.Running`.

    Args:
        job_id: None where it is not submitted yet, or where an earlier coordinator did not get to
            write it down.
        submit: Hands the job to the engine and returns its id; None: an earlier coordinator did.
    """

    def __init__(
        self,
        engine: Engine,
        folder: AttemptFolder,
        *,
        job_id: str | None = None,
        submit: Callable[[], str] | None = None,
        limits: TrialLimits,
        patience: Patience,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._job_id = job_id
        self._submit = submit
        self._find_at = 0.0
        self._job = Job(state=JobState.UNKNOWN, detail=f"{engine.kind} was not asked yet")
        self._limits = limits
        self._patience = patience
        self._ended: Supervision | None = None
        self._cancel_at: float | None = None
        self._give_up_at: float | None = None
        self._lost_at: float | None = None
        self._lost_detail = ""
        self._was_asked = self._is_damaged = False
        self._pulse = _Pulse(folder)

    @property
    def pid(self) -> int | None:
        """See `launcher.Running.pid`; None, too, while the job waits for a node."""
        return self._process[0]

    @property
    def started_at(self) -> float | None:
        """See `launcher.Running.started_at`."""
        return self._process[1]

    def poll(self) -> Supervision | None:
        """See `launcher.Running.poll`."""
        if self._ended is None:
            self._ended = self._look(time.monotonic())
        return self._ended

    @property
    def standing(self) -> str:
        """What the engine said last of the job, as a sentence."""
        return self._job.detail

    def submit(self) -> None:
        """Hands the job to the engine; one that does not answer is asked again later.

        Raises:
            OSError: The engine does not take the job.
        """
        assert self._submit is not None
        try:
            self._job_id = self._submit()
        except EngineSilent as error:
            _log.warning("%s: %s", self._folder.path, error)
            self._find_at = time.monotonic() + FIND_SECONDS

    @property
    def has_ended(self) -> bool:
        """Whether `poll` has told so."""
        return self._ended is not None

    def stop(self, *, grace_seconds: float) -> None:
        """See `launcher.Running.stop`. A job that has not begun is taken from the queue."""
        self._ask(Request(grace_seconds=grace_seconds), Cause.STOPPED)

    def renew(self, *, seconds: float) -> None:
        """See `launcher.Running.renew`: jobs outlive their coordinator."""

    def kill(self) -> None:
        """See `launcher.Running.kill`."""
        self._ask(Request(grace_seconds=None), Cause.KILLED)

    @property
    def _process(self) -> tuple[int | None, float | None]:
        if self._ended is not None:
            return self._ended.pid, self._ended.started_at
        beat = last_beat(self._folder)
        return (None, None) if beat is None else (beat.pid, beat.started_at)

    def _ask(self, request: Request, cause: Cause) -> None:
        if self.poll() is not None:
            return
        self._was_asked = True
        if self._called_off(f"its {self._engine.kind} job had not begun", cause):
            self._cancel()
            return
        wait_seconds = self._patience.obey_seconds if self._request(request) else 0.0
        if request.grace_seconds is not None:
            wait_seconds += request.grace_seconds + self._limits.checkpoint_seconds
        cancel_at = time.monotonic() + wait_seconds
        self._cancel_at = min(cancel_at, self._cancel_at or cancel_at)
        self._give_up_at = self._cancel_at + self._patience.engine_seconds

    def _called_off(self, detail: str, cause: Cause) -> bool:
        """Takes the attempt before the job does, so that it never begins; False if it has begun."""
        try:
            if not take(self._folder, by="the coordinator, to call it off"):
                return False
        except OSError as error:
            _log.warning("%s: %s", self._folder.taken, error)
            return False
        self._ended = self._recorded(cause, detail)
        return True

    def _look(self, now: float) -> Supervision | None:
        supervision = self._written()
        if supervision is not None:
            return supervision
        job = self._job = self._ask_engine(now)
        self._insist(now)
        if job.state is JobState.ENDED:
            return self._after(job.detail, now)
        if job.state is JobState.UNKNOWN and self._is_given_up(now):
            return self._after(f"{job.detail}, and the node does not do as it is asked", now)
        self._lost_at = None
        return None

    def _written(self) -> Supervision | None:
        """Returns what the node left; an end that we asked for as its engine lost it is no kill."""
        try:
            supervision = Supervision.read(self._folder.supervision)
        except (ValueError, OSError) as error:
            if not self._is_damaged:
                _log.warning("%s: %s", self._folder.supervision, error)
            self._is_damaged = True
            return None
        if supervision is None or self._lost_at is None or self._was_asked:
            return supervision
        if supervision.cause is not Cause.KILLED:
            return supervision
        detail = f"{self._lost_detail}; its processes were still there and were ended"
        lost = replace(supervision, cause=Cause.SUPERVISOR_LOST, detail=detail)
        lost.write(self._folder.supervision)
        return lost

    def _ask_engine(self, now: float) -> Job:
        """Asks the engine; of a job whose id is not known, now and then, for one of its name."""
        if self._job_id is not None:
            return self._engine.look(self._job_id)
        if now < self._find_at:
            return self._job
        self._find_at = now + FIND_SECONDS
        name = job_name(self._folder)
        try:
            self._job_id = self._engine.find(name)
            if self._job_id is None and self._submit is not None:
                self._job_id = self._submit()
        except EngineSilent as error:
            return Job(state=JobState.UNKNOWN, detail=str(error))
        except OSError as error:
            return Job(state=JobState.ENDED, detail=str(error))
        if self._job_id is None:
            return Job(state=JobState.ENDED, detail=f"{self._engine.kind} knows no job {name}")
        return self._engine.look(self._job_id)

    def _insist(self, now: float) -> None:
        if self._cancel_at is not None and now >= self._cancel_at:
            self._cancel_at = None
            self._cancel()

    def _cancel(self) -> None:
        if self._job_id is not None:
            self._engine.cancel(self._job_id)

    def _is_given_up(self, now: float) -> bool:
        return self._give_up_at is not None and now >= self._give_up_at

    def _after(self, detail: str, now: float) -> Supervision | None:
        """Returns how an attempt ended whose job is over and has left no supervision so far.

        Its node may be cut off from the engine only: processes that still see the folder are asked
        to end, and as long as the heartbeat goes on the attempt is not over.
        """
        if self._lost_at is None:
            self._lost_at, self._lost_detail = now, detail
            if self._called_off(detail, Cause.SUPERVISOR_LOST):
                return self._ended
            self._request(Request(grace_seconds=None))
        _look_afresh(self._folder)
        silent_seconds = self._pulse.silent_seconds(now)
        late = now - self._lost_at >= self._patience.file_seconds
        if not late or silent_seconds < self._patience.silence_seconds:
            return None
        return self._written() or self._recorded(Cause.SUPERVISOR_LOST, detail)

    def _request(self, request: Request) -> bool:
        try:
            write_request(self._folder, request)
        except OSError as error:
            _log.warning("%s: %s", self._folder.request, error)
            return False
        return True

    def _recorded(self, cause: Cause, detail: str) -> Supervision:
        supervision = replace(
            last_seen(last_beat(self._folder), cause=cause, detail=detail),
            stderr_tail=tail_of(self._folder.job_log),
        )
        with contextlib.suppress(OSError):  # the caller has the value; the file is for later ones
            supervision.write(self._folder.supervision)
        return supervision


class _Pulse:
    """How long the heartbeat in an attempt's folder has not changed, by this process's clock."""

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._seen = b""
        self._changed_at: float | None = None

    def silent_seconds(self, now: float) -> float:
        try:
            fresh = self._folder.heartbeat.read_bytes()
        except OSError:
            fresh = self._seen
        if self._changed_at is None or fresh != self._seen:
            self._seen, self._changed_at = fresh, now
        return now - self._changed_at


def _look_afresh(folder: AttemptFolder) -> None:
    """Opens the folder, upon which a network file system asks its server what is in it."""
    with contextlib.suppress(OSError):
        os.scandir(folder.path).close()
