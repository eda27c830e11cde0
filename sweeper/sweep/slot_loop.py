"""One slot: claim a cell, start an attempt at it, watch it, put its end on record, repeat."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sweeper.errors import StoreError, StoreUnavailable
from sweeper.files import write_whole
from sweeper.records import Outcome, OutcomeKind, Reason
from sweeper.store.claims import Claim, Process
from sweeper.study.plan import make_spec
from sweeper.study.spec import TrialSpec
from sweeper.sweep.devices import forget, seed_environment, worth_waiting
from sweeper.sweep.disk_room import attempts_bytes, no_room
from sweeper.sweep.early_end import baseline_failure, failure_sentence
from sweeper.sweep.engine_jobs import Job
from sweeper.sweep.finishing import finish_attempt, record_unstarted
from sweeper.sweep.first_turn import FirstTurn, first_turn
from sweeper.sweep.mirroring import follow_chain
from sweeper.sweep.reconciling import bring_in_step
from sweeper.sweep.repeats import left_to_others
from sweeper.sweep.study_run import StudyRun
from sweeper.sweep.verdicts import leave_claim
from sweeper.sweep.watch import AttemptWatch
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.allowance import trial_limits
from sweeper.workers.ending import MEMORY_LEFT
from sweeper.workers.launcher import Running
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Supervision

_log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS = 0.2
"""Between two looks at a running attempt, or for a turn."""
PAUSES_SECONDS = (1.0, 5.0, 15.0, 60.0)
"""Waits between the tries of what the slot cannot go on without; the last one again and again."""
OTHERS_SECONDS = 1.0
"""Between two looks at what other coordinators run, at the most."""


def run_slot(run: StudyRun, slot: Slot) -> StoreError | None:
    """Runs one cell after another on the slot until there is none left, or the user asks to end.

    A slot with too many device errors in a row leaves its cells to the others, see `quarantine`.

    Returns:
        What was wrong with the database, if the slot had to give up because of it. The other
        slots are left alone. What the trial reported is in its folder: the next run takes it up.
    """
    try:
        while not run.stop.is_asked and (seconds := _next_look(run, slot)) is not None:
            time.sleep(seconds)
    except StoreError as error:
        run.observer.message(f"slot {slot.name} gives up: {error}")
        return error
    finally:
        run.turns.leave(slot.name)
    return None


def _next_look(run: StudyRun, slot: Slot) -> float | None:
    """Takes the slot's turn; where there are other hosts, once more before it is not needed.

    Between a claim that finds nothing and a look that finds nobody at work, one of them may have
    given a cell back.
    """
    seconds = _take_turn(run, slot)
    if seconds is None and run.others.may_exist and not run.stop.is_asked:
        time.sleep(LOOK_SECONDS)
        seconds = _take_turn(run, slot)
    return seconds


def _take_turn(run: StudyRun, slot: Slot) -> float | None:
    """Runs cells while there are any to claim.

    Returns:
        For how many seconds to wait before the next look; None when the slot is not needed any
        more.
    """
    if run.faults.is_set_aside(slot.name):
        return None
    if not run.turns.take(slot.name):
        return LOOK_SECONDS
    others_busy, lost_here, plan = False, frozenset[str](), run.plan
    try:
        while not run.stop.is_asked and not run.faults.is_set_aside(slot.name):
            others_busy = run.turns.others_busy(slot.name)  # asked before the claim: see below
            if (job := run.jobs.next()) is not None:
                _follow(run, job, slot)
                continue
            claim, lost_here = _persist(run, partial(_next_claim, run, slot, others_busy))
            if claim is None:
                break
            _run_attempt(run, claim, slot)
    finally:
        run.turns.give_back(slot.name)
    # A running trial may be lost and need this slot, even if its own slot is gone by now; so may a
    # cell that was left to another one, which gives up, or that an engine is asked for later.
    waited_for = others_busy or run.turns.anyone_busy or bool(lost_here)
    if waited_for:
        return LOOK_SECONDS
    if running_elsewhere := _persist(run, run.others.running):
        run.others.tell_waiting(running_elsewhere)
        return min(OTHERS_SECONDS, run.lease.look_seconds)
    goes_on = _persist(run, lambda: _may_be_needed(run, slot) or run.extending.extend(plan))
    return LOOK_SECONDS if goes_on else None


def _next_claim(
    run: StudyRun, slot: Slot, others_busy: bool
) -> tuple[Claim | None, frozenset[str]]:
    """Claims a cell, if there is one for the slot; also returns those that it leaves for now."""
    lost_here = _lost_here(run, slot.name, others_busy=others_busy)
    lost_here |= run.wrong_nodes.held_back(run.store)
    barred = left_to_others(run, slot.name) | lost_here
    barred |= run.places.unfit(slot.name, run.plan.cells)
    run.others.look()
    claim, turn = None, _first_turn(run)
    while turn is None or not turn.is_taken:
        claim = run.others.hold(partial(_claim, run, slot, barred, turn))
        if claim is not None or turn is None:
            break
        before, turn = turn, _first_turn(run)
        if turn == before:  # if not, somebody else was first, and this slot looks again
            break
    return claim, lost_here


def _first_turn(run: StudyRun) -> FirstTurn | None:
    """Returns whose turn it is; None once trials may run side by side."""
    if run.turns.proven:
        return None
    turn = first_turn(run.store, rule=run.study_file.study.stop.study)
    if turn.is_over:
        run.turns.prove()
    return None if turn.is_over else turn


def _claim(
    run: StudyRun, slot: Slot, barred: frozenset[str], turn: FirstTurn | None
) -> Claim | None:
    return run.store.claim(
        run.owner,
        slot.name,
        reverse=run.reverse_claims,
        lease_seconds=run.lease.seconds,
        barred=barred,
        known=run.places.asked_for(slot.name),
        alone_after=None if turn is None else turn.begun,
    )


def _may_be_needed(run: StudyRun, slot: Slot) -> bool:
    """Says whether a cell may yet come to the slot that was not for it so far."""
    known = run.places.asked_for(slot.name)
    return worth_waiting(run.store, known) or bool(left_to_others(run, slot.name))


def _lost_here(run: StudyRun, slot: str, *, others_busy: bool) -> frozenset[str]:
    """Returns the cells that another slot is to take after a device error in this one."""
    others_here = run.turns.still_here(run.slots) - {slot}
    return run.faults.left_to_others(
        slot, run.store, others_here=others_here, others_busy=others_busy
    )


def _follow(run: StudyRun, job: Job, slot: Slot) -> None:
    """Follows a job that an earlier coordinator had handed to the engine, until it ends."""
    before = job.claim
    claim = run.others.hold(
        lambda: _persist(
            run,
            lambda: run.store.take_over(
                before, run.owner, slot.name, lease_seconds=run.lease.seconds
            ),
        )
    )
    if claim is None:
        run.observer.message(f"{before.cell}: attempt {before.attempt} has another owner by now")
        return
    with contextlib.suppress(OSError):  # it is written for a rebuild, which the verdict serves too
        leave_claim(AttemptFolder(run.folder.path / claim.folder), claim)
    run.observer.slot_started(slot=slot.name, cell=claim.cell, attempt=claim.attempt)
    run.observer.message(
        f"{claim.cell}: attempt {claim.attempt}, left by process {before.owner.pid}, goes on"
    )
    _run_attempt(run, claim, slot, running=job.running)


def _run_attempt(
    run: StudyRun, claim: Claim, slot: Slot, *, running: Running | None = None
) -> None:
    """Runs one attempt to its end and puts that on record.

    Args:
        running: The attempt, where it runs already.
    """
    try:
        outcome = _outcome_of_attempt(run, claim, slot, running)
    finally:
        run.others.let_go(claim)
    if _persist(run, lambda: _counts(run, claim, outcome)):
        _persist(run, lambda: _end_early(run, claim, outcome))
        _tolerate(run, claim, lambda: _tell_optuna(run, claim))
    else:
        run.observer.message(
            f"{claim.cell}: attempt {claim.attempt} had been taken over; its result is kept apart"
        )
    _tolerate(run, claim, lambda: follow_chain(run.store, run.folder))
    run.turns.ended(outcome)
    run.observer.trial_ended(slot=slot.name, cell=claim.cell, outcome=outcome)
    if run.places.ended(slot.name, claim.seed, outcome):
        known = {slot.name: run.places.known(slot.name)}
        _tolerate(run, claim, lambda: run.store.record_slots(run.owner, known))
    if slot.engine and (why := run.wrong_nodes.ended(claim.cell, outcome)):
        run.observer.message(why)
    if left := outcome.evidence.get(MEMORY_LEFT):
        run.observer.message(f"slot {slot.name}: {left}")
    if why := run.faults.ended(slot.name, claim.cell, outcome):
        run.observer.message(why)
        aside = [name for name in run.slots if run.faults.is_set_aside(name)]
        _tolerate(run, claim, lambda: forget(run.store, run.owner, aside))


def _outcome_of_attempt(
    run: StudyRun, claim: Claim, slot: Slot, running: Running | None
) -> Outcome:
    _persist(run, lambda: run.extending.know(claim.cell))
    _tolerate(run, claim, lambda: _start_in_optuna(run, claim))
    folder = AttemptFolder(run.folder.path / claim.folder)
    started = running or _start(run, claim, folder, slot)
    if isinstance(started, Outcome):
        outcome = started
        _persist(run, lambda: record_unstarted(run.store, claim, folder, outcome, terms=run.terms))
    else:
        supervision = _watch(run, claim, folder, started)
        asked = run.stop.reason
        outcome = _persist(
            run,
            lambda: finish_attempt(
                run.store, claim, folder, supervision, terms=run.terms, asked=asked
            ),
        )
    return outcome


def _counts(run: StudyRun, claim: Claim, outcome: Outcome) -> bool:
    """Says whether the attempt ended like this on record; not so if it was taken over before."""
    recorded = run.store.outcome(claim)
    return recorded is not None and recorded.reason is outcome.reason


def _start(run: StudyRun, claim: Claim, folder: AttemptFolder, slot: Slot) -> Running | Outcome:
    """Starts an attempt, or returns how it ends that cannot be started."""
    limits = _persist(run, lambda: _limits(run, claim, folder))
    if outcome := no_room(folder.path, limits):
        return outcome
    spec = _persist(run, lambda: _spec(run, claim, slot))
    if not _persist(run, lambda: run.store.renew(claim, lease_seconds=run.lease.seconds)):
        return Outcome(reason=Reason.WORKER_LOST, detail="taken over before it had started")
    try:
        folder.path.mkdir(parents=True)
        leave_claim(folder, claim)
        write_whole(folder.spec, spec.to_json(), durable=False)
        run.observer.slot_started(slot=slot.name, cell=claim.cell, attempt=claim.attempt)
        return run.launcher.start(folder, slot, limits)
    except OSError as error:  # the folder cannot be written, or no supervisor be started
        return _not_started(error)


def _spec(run: StudyRun, claim: Claim, slot: Slot) -> TrialSpec:
    """Returns all that the attempt is told."""
    return make_spec(
        run.study_file,
        run.plan,
        run.cell(claim.cell),
        attempt=claim.attempt,
        prepared=run.folder.prepared,
        threads=slot.threads,
        fencing_number=claim.fencing_number,
        resume_from=_earlier_attempt(run, claim),
        resume_elsewhere=run.places.anywhere,
        seed_environment=_seed_environment(run, claim),
    )


def _seed_environment(run: StudyRun, claim: Claim) -> Mapping[str, str] | None:
    """Returns what the attempt has to find where it runs; None: anything."""
    if run.places.anywhere:
        return None
    return seed_environment(run.store, claim.seed, (claim.cell, claim.attempt)) or None


def _earlier_attempt(run: StudyRun, claim: Claim) -> Path | None:
    """Returns the folder of the cell's last earlier attempt that was told anything.

    Its checkpoints are looked for first; its spec names the one before it, and so on. Those that a
    retry from the start has left behind are none of them. An attempt of another host may have its
    folder there: the trial then looks in vain, and has it on record that it starts over.
    """
    numbers = range(claim.attempt - 1, run.store.left_behind(claim.cell), -1)
    folders = [run.folder.attempt(arm=claim.arm, seed=claim.seed, number=n) for n in numbers]
    here = next((path for path in folders if AttemptFolder(path).spec.exists()), None)
    if here is None and folders and _ran_elsewhere(run, claim):
        return folders[0]
    return here


def _ran_elsewhere(run: StudyRun, claim: Claim) -> bool:
    before = run.store.attempts(claim.cell)[claim.attempt - 2]
    return before["host"] != run.owner.host


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
    watch = AttemptWatch(run, claim, folder, running)
    wishes = _Wishes(run, running)
    recorded = False
    while (supervision := running.poll()) is None:
        if not recorded and running.pid is not None:  # it may start some time after its order
            recorded = True
            _tolerate(run, claim, lambda: _record_child(run, claim, running))
        watch.look()
        wishes.pass_on(watch)
        time.sleep(LOOK_SECONDS)
    watch.look()
    return supervision


class _Wishes:
    """Tells a running attempt, each time once, that it is to end, or to be killed."""

    def __init__(self, run: StudyRun, running: Running) -> None:
        self._run = run
        self._running = running
        self._stopped = self._killed = False

    def pass_on(self, watch: AttemptWatch) -> None:
        """Other hosts take a trial for lost whose lease is over for a lease and some grace."""
        missed = watch.leases_missed if self._run.others.may_exist else 0
        urgent = self._run.stop.is_urgent or not watch.is_ours or missed >= 2
        if urgent and not self._killed:
            self._killed = True
            self._running.kill()
        elif (self._run.stop.is_asked or missed >= 1) and not (self._stopped or self._killed):
            self._stopped = True
            if missed >= 1:
                self._run.observer.message(watch.told_overdue)
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


def _start_in_optuna(run: StudyRun, claim: Claim) -> None:
    with run.store.turn():
        run.optuna_study.start(claim.cell)


def _tell_optuna(run: StudyRun, claim: Claim) -> None:
    with run.store.turn():
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
    """Does what the slot cannot go on without; waits for a database that is away, for however long.

    What the trial reported is safe in its folder meanwhile. A user who asked to end is not kept
    waiting for as long, nor is one whose database will not come back by itself.

    Raises:
        StoreError: From the last try.
    """
    pauses = itertools.chain(PAUSES_SECONDS, itertools.repeat(None))
    while True:
        pause_seconds = next(pauses)
        try:
            return action()
        except StoreError as error:
            waits = isinstance(error, StoreUnavailable) and not run.stop.is_asked
            if run.stop.is_urgent or (pause_seconds is None and not waits):
                raise
            _log.warning("%s", error)
            run.observer.message("the database cannot be used; trying again")
        _pause(run, PAUSES_SECONDS[-1] if pause_seconds is None else pause_seconds)


def _pause(run: StudyRun, seconds: float) -> None:
    """Waits so long, or until the user wants to end at once."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not run.stop.is_urgent:
        time.sleep(min(LOOK_SECONDS, seconds))
