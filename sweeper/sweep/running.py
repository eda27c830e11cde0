"""Runs a study from its file to its end; a study that was begun goes on, an ended one stays."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from joblib import Parallel, delayed
from pydantic import TypeAdapter, ValidationError

from sweeper.errors import Fault, StudyFileError, SweeperError
from sweeper.store.claims import Claim, Owner
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.following import with_baseline
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan, make_plan
from sweeper.study.preparing import prepare
from sweeper.study.run_options import RunOptions
from sweeper.study.schema import StudyName
from sweeper.study.storage import SQLITE
from sweeper.sweep.adopting import adopt_leftovers, refuse_others
from sweeper.sweep.agreed_limits import under_agreed_limits
from sweeper.sweep.conflicts import refuse_frozen, refuse_other_devices
from sweeper.sweep.coordinator import one_of_several, only_coordinator, tell_begun
from sweeper.sweep.deadline import stop_at_deadline
from sweeper.sweep.devices import Places, gone, places_of, why_cells_wait
from sweeper.sweep.disk_room import least_disk_bytes
from sweeper.sweep.early_end import is_proven
from sweeper.sweep.engine_jobs import lanes, refuse_workers, still_running
from sweeper.sweep.extending import Extending, ReadEvidence, plan_on_record
from sweeper.sweep.first_turn import settle
from sweeper.sweep.founding import (
    discard,
    founded,
    opened,
    refuse_single_host,
    try_server,
)
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import Observer, SilentObserver
from sweeper.sweep.others import Others, Shared
from sweeper.sweep.quarantine import DeviceFaults
from sweeper.sweep.reconciling import reconcile
from sweeper.sweep.silence import Patience, silent_claims
from sweeper.sweep.slot_loop import run_slot
from sweeper.sweep.stop_request import StopRequest
from sweeper.sweep.study_end import RunStatus, StudyEnd, count, is_open, run_status, without_room
from sweeper.sweep.study_run import StudyRun, terms_of
from sweeper.sweep.turns import Turns
from sweeper.training.report import ModelReport
from sweeper.workers.launcher import Launcher
from sweeper.workers.launchers.choosing import launcher_for
from sweeper.workers.slots import (
    Slot,
    find_slots,
    this_machine,
    trial_memory_bytes,
    unused_devices,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoices:
    """What may be chosen for one run of a study.

    Attributes:
        as_name: Run the study under this name, in a run folder of its own.
        replace: Discard the recorded study first, if none of its trials is completed or stopped.
        slots: Instead of those that `run.slots` finds.
        launcher: Instead of child processes on this host; closed at the end.
        reverse_claims: Claim cells from the end of the plan, to show that the order is harmless.
        resume_elsewhere: Go on with other devices or ranks than trials of the same seed had; what
            was changed is marked on record, and compared as such.
        joins: Be one of several coordinators, as `sweeper worker` is.
        evidence: Reads what the record shows, for a study that may be extended.
        lease: Other lengths than the usual ones, for tests.
    """

    as_name: str | None = None
    replace: bool = False
    slots: tuple[Slot, ...] | None = None
    launcher: Launcher | None = None
    reverse_claims: bool = False
    resume_elsewhere: bool = False
    joins: bool = False
    evidence: ReadEvidence | None = None
    lease: LeaseTerms = field(default_factory=LeaseTerms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Onlookers:
    """Who is told what happens, and who may ask the run to stop."""

    observer: Observer = field(default_factory=SilentObserver)
    stop: StopRequest = field(default_factory=StopRequest)


def run_study(
    study_file: StudyFile,
    *,
    observer: Observer | None = None,
    stop: StopRequest | None = None,
    choices: RunChoices | None = None,
) -> StudyEnd:
    """Runs what is left of the study and returns how it stands then.

    Args:
        observer: Told what happens; from several threads.
        stop: The user's wish to end; see `stop_request.listening`.

    Raises:
        StudyFileError: `as_name` is no name for a study; or the earlier study that the baseline is
            taken from has no frozen choice, or made it under other settings.
        RunFolderError: The run folder cannot be written.
        StudyBusy: Another coordinator is running the study.
        StudyConflict: The run folder holds another study, or one that `replace` may not discard.
        DataError: The records are not usable.
        ModelError: The model is not usable.
        PlanError: The study cannot be run as it asks.
        StoreError: The database cannot be used.
    """
    choices = choices or RunChoices()
    study_file = under_name(study_file, choices.as_name)
    folder = StudyFolder.beside(study_file.path, study_file.study.name)
    study_file = with_baseline(study_file, folder)
    watching = Onlookers(observer=observer or SilentObserver(), stop=stop or StopRequest())
    if choices.joins:
        refuse_workers(study_file.study.run)
        refuse_single_host(study_file, folder)
    with (one_of_several if choices.joins else only_coordinator)(folder) as owner:
        take_up(
            study_file,
            folder,
            owner,
            replace=choices.replace,
            joins=choices.joins,
            lease=choices.lease,
            observer=watching.observer,
            stop=watching.stop,
        )
        try_server(study_file, folder)
        try:
            manifest = prepare(study_file, folder, progress=watching.observer.message)
        except SweeperError:
            if watching.stop.is_asked:  # Ctrl-C reached the preparing child too
                return _interrupted(study_file, folder)
            raise
        plan = make_plan(study_file, manifest, folder.prepared)
        return run_plan(study_file, plan, owner, watching=watching, choices=choices)


def under_name(study_file: StudyFile, name: str | None) -> StudyFile:
    """Returns the study under that name; the file's text stays as it is.

    Raises:
        StudyFileError: It is no name for a study.
    """
    if name is None:
        return study_file
    try:
        TypeAdapter(StudyName).validate_python(name)
    except ValidationError as error:
        raise StudyFileError(
            Fault(
                what="a study cannot have this name",
                where="--as",
                got=repr(name),
                expected="at most 100 letters, digits, `.`, `_` and `-`; a letter or digit first",
            )
        ) from error
    study = study_file.study.model_copy(update={"name": name})
    return dataclasses.replace(study_file, study=study)


def take_up(  # noqa: PLR0913  # what is taken up, by whom, and who may have it
    study_file: StudyFile,
    folder: StudyFolder,
    owner: Owner,
    *,
    replace: bool,
    observer: Observer,
    joins: bool = False,
    lease: LeaseTerms | None = None,
    stop: StopRequest | None = None,
) -> None:
    """Ends on record what an earlier coordinator left; then discards the study if asked to.

    Args:
        joins: Whether coordinators on other hosts are welcome.
        lease: When what they run counts as lost.
        stop: The user's wish not to wait for what they may run; without it that is waited for.

    Raises:
        StudyConflict: It is to be discarded, but trials of it have completed or were stopped.
        StudyBusy: A coordinator lives that does not hold the lock, or may live on another host.
        StoreError: The database cannot be used.
    """
    is_single = study_file.study.run.storage == SQLITE
    with opened(study_file, folder) as store:
        study = None if store is None else store.find_study()
        if store is not None and study is not None:
            terms = terms_of(study_file, study.budget_target_tokens)
            silent: Collection[Claim] = ()
            if not joins:  # whoever joins looks at them time and again, see `others`
                patience = Patience(
                    lease=lease or LeaseTerms(), observer=observer, stop=stop or StopRequest()
                )
                silent = silent_claims(store, patience, on_server=not is_single)
            jobs = adopt_leftovers(
                store,
                folder,
                owner,
                terms=terms,
                observer=observer,
                locked=is_single,
                lease=lease,
                silent=silent,
            )
            if not joins:
                refuse_others(store, on_server=not is_single, lease=lease, besides=jobs)
        if store is not None and replace:
            attempts = discard(folder, store, study_file.path)
            observer.message(f"discarded the recorded study and its {attempts} attempts")


def run_plan(
    study_file: StudyFile,
    plan: Plan,
    owner: Owner,
    *,
    watching: Onlookers,
    choices: RunChoices,
) -> StudyEnd:
    """Founds the study if need be, runs its open cells, and brings Optuna in step.

    Args:
        owner: This process, a coordinator of the study.

    Raises:
        StudyConflict: The run folder holds a study with another fingerprint, or one whose seeds
            have begun in another way.
        PlanError: There is no slot to run on.
        StoreError: The database cannot be used.
    """
    folder = StudyFolder.beside(study_file.path, plan.name)
    founding = founded(
        study_file,
        plan,
        folder,
        elsewhere=choices.resume_elsewhere,
        joins=choices.joins,
        observer=watching.observer,
    )
    with founding as (store, optuna_study):
        refuse_frozen(store, folder)
        reconcile(store, optuna_study)
        study_file = under_agreed_limits(study_file, store)
        settle(store, rule=study_file.study.stop.study)
        stop_at_deadline(watching.stop, study_file.study.run, store)
        extending = Extending(
            study_file=study_file,
            plan=plan_on_record(plan, study_file.study, store),
            folder=folder,
            store=store,
            optuna_study=optuna_study,
            read=choices.evidence,
            stop=watching.stop,
            observer=watching.observer,
        )
        extending.extend(extending.plan)  # where an earlier run was killed before it could
        waits: Mapping[str, str] = {}
        did_nothing = not any(is_open(cell) for cell in store.cells())
        if not did_nothing:
            waits = _run_open_cells(extending, owner, choices)
        end = _end(store, folder, did_nothing=did_nothing, stop=watching.stop)
        full = without_room(store.cells(), study_file.study.run.limits)
        return dataclasses.replace(end, waits=waits, without_room=full)


def _run_open_cells(extending: Extending, owner: Owner, choices: RunChoices) -> Mapping[str, str]:
    """Runs what is open on the study's slots; returns why cells still wait that do.

    Raises:
        StudyConflict: A seed has begun where none of the slots is.
        PlanError: There is no slot to run on.
        StoreError: The database cannot be used.
    """
    store = extending.store
    found = choices.slots or _found_slots(extending)
    places = places_of(found, extending.study_file.study.run, anywhere=choices.resume_elsewhere)
    slots = _needed(places.fitting_first(found, store), extending)
    if not choices.joins:  # what this host cannot run, others can
        refuse_other_devices(store, places.of(slots))
    store.record_slots(owner, places.of(slots), instead_of=gone(store, owner))
    run = _study_run(extending, owner, slots, places, choices)
    _run_slots(run, slots, joins=choices.joins)
    extending.catch_up()
    reconcile(store, extending.optuna_study)
    left = [slot for slot in slots if not run.faults.is_set_aside(slot.name)]
    return why_cells_wait(store, places.of(left))


def _study_run(
    extending: Extending,
    owner: Owner,
    slots: tuple[Slot, ...],
    places: Places,
    choices: RunChoices,
) -> StudyRun:
    """Returns what the slots share."""
    study_file, store, folder = extending.study_file, extending.store, extending.folder
    run, observer = study_file.study.run, extending.observer
    # Workers may share a run folder.
    logs = folder.logs / owner.host if choices.joins else folder.logs
    return StudyRun(
        study_file=study_file,
        extending=extending,
        folder=folder,
        owner=owner,
        store=store,
        optuna_study=extending.optuna_study,
        launcher=choices.launcher
        or launcher_for(run, logs, environ=os.environ, tell=observer.message),
        slots=tuple(slot.name for slot in slots),
        turns=Turns(proven=is_proven(store.trials())),
        faults=DeviceFaults(
            allowed=run.quarantine_after,
            devices={slot.name: slot.device for slot in slots if slot.device is not None},
        ),
        stop=extending.stop,
        observer=observer,
        reverse_claims=choices.reverse_claims,
        needed_disk_bytes=least_disk_bytes(study_file.study, folder),
        places=places,
        others=_others(extending, owner, choices.lease),
        lease=choices.lease,
    )


def _others(extending: Extending, owner: Owner, lease: LeaseTerms) -> Others:
    """Returns the other coordinators that there may be."""
    study_file = extending.study_file
    if study_file.study.run.storage == SQLITE:
        return Others(None)
    return Others(
        Shared(
            store=extending.store,
            folder=extending.folder,
            owner=owner,
            terms=terms_of(study_file, extending.plan.budget_target_tokens),
            lease=lease,
            observer=extending.observer,
        )
    )


def _needed(slots: tuple[Slot, ...], extending: Extending) -> tuple[Slot, ...]:
    """Returns no more slots than there may be work for; a repeat may leave one of them unused."""
    repeats = sum(cell.repeats is not None for cell in extending.plan.cells)
    return slots[: _open_cells(extending) + repeats]


def _open_cells(extending: Extending) -> int:
    """Returns how many cells may wait at once: those that are open, or those of the next round."""
    is_left = sum(is_open(cell) for cell in extending.store.cells())
    return max(is_left, extending.spare_cells)


def _run_slots(run: StudyRun, slots: tuple[Slot, ...], *, joins: bool) -> None:
    """Runs the slots side by side, in threads: the work is in child processes."""
    try:
        run.jobs.add(still_running(run.store.live_attempts(), run.folder, run.launcher))
        if not joins:  # nobody waits for a worker's beginning
            tell_begun(run.folder, run.owner)
        troubles = Parallel(n_jobs=len(slots), backend="threading")(
            delayed(run_slot)(run, slot) for slot in slots
        )
    except BaseException:
        run.stop.ask()  # the other slots' threads live on: they are to claim nothing more
        raise
    finally:
        run.launcher.close()
    for trouble in troubles:
        if trouble is not None:
            raise trouble


def _found_slots(extending: Extending) -> tuple[Slot, ...]:
    run = extending.study_file.study.run
    if run.launcher.kind != "local":
        return lanes(run, cells=_open_cells(extending))
    return _slots_here(run, extending.folder, extending.observer)


def _slots_here(run: RunOptions, folder: StudyFolder, observer: Observer) -> tuple[Slot, ...]:
    model = ModelReport.read(folder.model_report)
    need = trial_memory_bytes(
        parameters=model.parameters, trainable_parameters=model.trainable_parameters
    )
    machine = this_machine(os.environ)
    slots = find_slots(run, machine, memory_bytes_per_rank=need)
    if unused := unused_devices(run, machine):
        each = run.devices_per_trial
        observer.message(f"not used, for a trial takes {each} devices: {', '.join(unused)}")
    return slots


def _end(
    store: StudyStore, folder: StudyFolder, *, did_nothing: bool, stop: StopRequest
) -> StudyEnd:
    study, cells = store.study(), store.cells()
    if study.ended_why is None and not any(is_open(cell) for cell in cells):
        store.end_study("every cell has ended")
    early = any(cell.status is CellStatus.NOT_RUN for cell in cells)
    return StudyEnd(
        name=study.name,
        folder=folder.path,
        counts=count(cells),
        status=run_status(cells, interrupted=stop.is_by_user),
        ended_early=study.ended_why if early else None,
        did_nothing=did_nothing,
        is_late=stop.is_late and any(is_open(cell) for cell in cells),
    )


def _interrupted(study_file: StudyFile, folder: StudyFolder) -> StudyEnd:
    """Returns the end of a run that did not get as far as a plan."""
    return StudyEnd(
        name=study_file.study.name,
        folder=folder.path,
        counts={},
        status=RunStatus.INTERRUPTED,
        ended_early=None,
        did_nothing=False,
    )
