"""One slot: claim a cell, start an attempt at it, watch it, put its end on record, repeat."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sweeper.errors import StoreError
from sweeper.files import write_whole
from sweeper.records import Outcome, OutcomeKind, Reason
from sweeper.store.claims import Claim, Process
from sweeper.store.endings import Cost
from sweeper.study.plan import make_spec
from sweeper.sweep.devices import begun_elsewhere
from sweeper.sweep.disk_room import attempts_bytes, no_room
from sweeper.sweep.early_end import baseline_failure, failure_sentence
from sweeper.sweep.finishing import finish_attempt, record_outcome
from sweeper.sweep.reconciling import bring_in_step
from sweeper.sweep.repeats import left_to_others
from sweeper.sweep.study_run import StudyRun
from sweeper.sweep.watch import AttemptWatch
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.allowance import trial_limits
from sweeper.workers.launcher import Running
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Supervision

_log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS = 0.2
"""Between two looks at a running attempt, or for a turn."""
PAUSES_SECONDS = (1.0, 5.0, 15.0, 60.0)
"""Waits between the tries to put an ending on record."""


def run_slot(run: StudyRun, slot: Slot) -> StoreError | None:
    """Runs one cell after another on the slot until there is none left, or the user asks to end.

    A slot with too many device errors in a row leaves its cells to the others, see `quarantine`.

    Returns:
        What was wrong with the database, if the slot had to give up because of it. The other
        slots are left alone. What the trial reported is in its folder: the next run takes it up.
    """
    try:
        while not run.stop.is_asked and _take_turn(run, slot):
            time.sleep(LOOK_SECONDS)
    except StoreError as error:
        run.observer.message(f"slot {slot.name} gives up: {error}")
        return error
    finally:
        run.turns.leave(slot.name)
    return None


def _take_turn(run: StudyRun, slot: Slot) -> bool:
    """Runs cells while there are any to claim; False when the slot is not needed any more."""
    if run.faults.is_set_aside(slot.name):
        return False
    if not run.turns.take(slot.name):
        return True
    others_busy, lost_here = False, frozenset[str]()
    try:
        while not run.stop.is_asked and not run.faults.is_set_aside(slot.name):
            others_busy = run.turns.others_busy(slot.name)  # asked before the claim: see below
            lost_here = _lost_here(run, slot.name, others_busy=others_busy)
            barred = left_to_others(run, slot.name) | begun_elsewhere(run, slot) | lost_here
            claim = run.store.claim(run.owner, slot.name, reverse=run.reverse_claims, barred=barred)
            if claim is None:
                break
            _run_attempt(run, claim, slot)
    finally:
        run.turns.give_back(slot.name)
    # A running trial may be lost and need this slot, even if its own slot is gone by now; so may a
    # cell that was left to another one, which gives up.
    waited_for = others_busy or run.turns.anyone_busy or bool(lost_here)
    return waited_for or bool(left_to_others(run, slot.name))


def _lost_here(run: StudyRun, slot: str, *, others_busy: bool) -> frozenset[str]:
    """Returns the cells that another slot is to take after a device error in this one."""
    others_here = run.turns.still_here(run.slots) - {slot}
    return run.faults.left_to_others(
        slot, run.store, others_here=others_here, others_busy=others_busy
    )


def _run_attempt(run: StudyRun, claim: Claim, slot: Slot) -> None:
    outcome = _outcome_of_attempt(run, claim, slot)
    _end_early(run, claim, outcome)
    run.turns.ended(outcome)
    run.observer.trial_ended(slot=slot.name, cell=claim.cell, outcome=outcome)
    if why := run.faults.ended(slot.name, claim.cell, outcome):
        run.observer.message(why)


def _outcome_of_attempt(run: StudyRun, claim: Claim, slot: Slot) -> Outcome:
    _tolerate(run, claim, lambda: run.optuna_study.start(claim.cell))
    folder = AttemptFolder(run.folder.path / claim.folder)
    started = _start(run, claim, folder, slot)
    if isinstance(started, Outcome):
        outcome = started
        _persist(
            run, lambda: record_outcome(run.store, claim, outcome, cost=Cost(), terms=run.terms)
        )
    else:
        supervision = _watch(run, claim, folder, started)
        asked = Reason.USER_CANCELLED if run.stop.is_asked else None
        outcome = _persist(
            run,
            lambda: finish_attempt(
                run.store, claim, folder, supervision, terms=run.terms, asked=asked
            ),
        )
    _tolerate(run, claim, lambda: _tell_optuna(run, claim))
    return outcome


def _start(run: StudyRun, claim: Claim, folder: AttemptFolder, slot: Slot) -> Running | Outcome:
    """Starts an attempt, or returns how it ends that cannot be started."""
    limits = _limits(run, claim, folder)
    if outcome := no_room(folder.path, limits):
        return outcome
    try:
        return _launch(run, claim, folder, slot, limits)
    except OSError as error:
        return _not_started(error)


def _launch(
    run: StudyRun, claim: Claim, folder: AttemptFolder, slot: Slot, limits: TrialLimits
) -> Running:
    """Writes the attempt's spec and starts it.

    Raises:
        OSError: The folder cannot be written, or no supervisor be started.
    """
    spec = make_spec(
        run.study_file,
        run.plan,
        run.cell(claim.cell),
        attempt=claim.attempt,
        prepared=run.folder.prepared,
        threads=slot.threads,
        fencing_number=claim.fencing_number,
        resume_from=_earlier_attempt(run, claim),
        resume_elsewhere=run.resume_elsewhere,
    )
    folder.path.mkdir(parents=True)
    write_whole(folder.spec, spec.to_json(), durable=False)
    run.observer.slot_started(slot=slot.name, cell=claim.cell, attempt=claim.attempt)
    return run.launcher.start(folder, slot, limits)


def _earlier_attempt(run: StudyRun, claim: Claim) -> Path | None:
    """Returns the folder of the cell's last earlier attempt that was told anything.

    Its checkpoints are looked for first; its spec names the one before it, and so on. Those that a
    retry from the start has left behind are none of them.
    """
    numbers = range(claim.attempt - 1, run.store.left_behind(claim.cell), -1)
    folders = (run.folder.attempt(arm=claim.arm, seed=claim.seed, number=n) for n in numbers)
    return next((path for path in folders if AttemptFolder(path).spec.exists()), None)


def _limits(run: StudyRun, claim: Claim, folder: AttemptFolder) -> TrialLimits:
    behind = run.store.left_behind(claim.cell)
    earlier = [row["wall_seconds"] for row in run.store.attempts(claim.cell)][behind:]
    used = sum(float(str(seconds)) for seconds in earlier if seconds is not None)
    return trial_limits(
        run.study_file.study.run.limits,
        used_seconds=used,
        used_disk_bytes=attempts_bytes(folder.path),
        needed_disk_bytes=run.needed_disk_bytes,
    )


def _watch(run: StudyRun, claim: Claim, folder: AttemptFolder, running: Running) -> Supervision:
    _tolerate(run, claim, lambda: _record_child(run, claim, running))
    watch = AttemptWatch(run, claim, folder)
    wishes = _Wishes(run, running)
    while (supervision := running.poll()) is None:
        watch.look()
        wishes.pass_on(is_ours=watch.is_ours)
        time.sleep(LOOK_SECONDS)
    watch.look()
    return supervision


class _Wishes:
    """Tells a running attempt, each time once, that it is to end, or to be killed."""

    def __init__(self, run: StudyRun, running: Running) -> None:
        self._run = run
        self._running = running
        self._stopped = self._killed = False

    def pass_on(self, *, is_ours: bool) -> None:
        urgent = self._run.stop.is_urgent or not is_ours
        if urgent and not self._killed:
            self._killed = True
            self._running.kill()
        elif self._run.stop.is_asked and not self._stopped:
            self._stopped = True
            self._running.stop(grace_seconds=TrialLimits().grace_seconds)


def _record_child(run: StudyRun, claim: Claim, running: Running) -> None:
    if running.pid is not None and running.started_at is not None:
        child = Process(pid=running.pid, started_at=repr(running.started_at))
        run.store.record_processes(claim, child=child)


def _not_started(error: OSError) -> Outcome:
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return Outcome(
        reason=Reason.DISK if full else Reason.WORKER_LOST,
        detail=f"the attempt could not be started: {error}",
        evidence={"error": type(error).__name__},
    )


def _end_early(run: StudyRun, claim: Claim, outcome: Outcome) -> None:
    """Ends the study where this ending asks for it; cells that never started are not run then."""
    rule = run.study_file.study.stop.study
    if outcome.kind is OutcomeKind.FAILED and not run.turns.proven:
        (trial,) = run.store.trials(claim.cell)
        why: str | None = failure_sentence(trial)
    else:
        why = baseline_failure(run.store.cells(), rule=rule)
    if why is not None and run.store.study().ended_why is None:
        run.store.close_not_run(why)
        run.observer.message(f"the study ends early: {why}")


def _tell_optuna(run: StudyRun, claim: Claim) -> None:
    (cell,) = (cell for cell in run.store.cells() if cell.cell == claim.cell)
    bring_in_step(run.store, run.optuna_study, cell)


def _tolerate(run: StudyRun, claim: Claim, action: Callable[[], None]) -> None:
    """Does what is made good at the trial's end or when the study is reconciled."""
    try:
        action()
    except StoreError as error:
        _log.warning("%s: %s", claim.cell, error)
        run.observer.message(f"{claim.cell}: made good later: {error.faults[0].what}")


def _persist(run: StudyRun, action: Callable[[], T]) -> T:
    """Does what has to be on record before the slot goes on; tries for a while.

    Raises:
        StoreError: From the last try.
    """
    for pause_seconds in PAUSES_SECONDS:
        try:
            return action()
        except StoreError as error:
            _log.warning("%s", error)
            run.observer.message("the database cannot be written; trying again")
        if run.stop.is_urgent:
            break
        time.sleep(pause_seconds)
    return action()
