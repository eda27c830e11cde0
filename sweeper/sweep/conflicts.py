"""What a study file may not say once its study is on record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sweeper.errors import Fault, StudyConflict
from sweeper.records import OutcomeKind
from sweeper.store.placement import misfit
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.fingerprint import differences
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile, load_study, parse_study
from sweeper.study.plan import Plan
from sweeper.study.run_options import RunOptions
from sweeper.study.same_environment import DEVICE, Difference
from sweeper.sweep.devices import Known
from sweeper.sweep.study_end import is_open
from sweeper.workers.known_environment import told_by_the_file
from sweeper.workers.liveness import host_name

_GO_ON_ELSEWHERE = (
    "go on with --resume-elsewhere: trials are then marked, and not comparable with those that ran "
    "otherwise"
)

_MAY_BE_OTHERS = frozenset({"ranks"})
"""What may differ from a seed's other trials when the user asks to go on elsewhere."""


def refuse_conflicts(
    store: StudyStore,
    plan: Plan,
    study_file: StudyFile,
    folder: StudyFolder,
    *,
    elsewhere: bool = False,
) -> None:
    """Accepts the study file as that of the recorded study, if there is one.

    Args:
        elsewhere: Whether trials may go on with another number of ranks than they had.

    Raises:
        StudyConflict: What is studied differs, or limits do, or a seed that has begun would go on
            in another way; every such key is named with both values.
    """
    known = store.find_study()
    if known is None:
        return
    if known.fingerprint != plan.fingerprint:
        way_on = _way_on(store, folder, study_file.path)
        raise StudyConflict(*_other_study(known, plan, way_on))
    run = study_file.study.run
    faults = [
        *_other_limits(_agreed_limits(folder, known), run, store.amended_limits()),
        *_other_ways(store, run, elsewhere=elsewhere),
    ]
    if faults:
        raise StudyConflict(*faults)


def refuse_frozen(store: StudyStore, folder: StudyFolder) -> None:
    """Accepts the study as one whose choice is not frozen.

    Raises:
        StudyConflict: It is.
    """
    frozen = store.frozen()
    if frozen is not None:
        raise StudyConflict(
            Fault(
                what="the study's choice is frozen, and nothing of the study runs or changes any "
                "more",
                where=str(folder.path),
                got=f"{frozen.arm}, frozen for the protocol {frozen.protocol[:12]}",
                hint="A follow-up study takes it from there: `baseline: {from: "
                f"{folder.path}}}` in a study file with a name of its own",
            )
        )


def refuse_other_devices(store: StudyStore, slots: Known) -> None:
    """Accepts the slots as places where the seeds that have begun can go on.

    Args:
        slots: What is known of each, by name.

    Raises:
        StudyConflict: A seed has begun in an environment that none of the slots has.
    """
    unfinished = {cell.seed for cell in store.cells() if is_open(cell)}
    places, host = store.seed_places(), host_name()
    faults = []
    for seed in sorted(unfinished & places.keys()):
        found = {name: misfit(places[seed], known, host=host) for name, known in slots.items()}
        differences = {name: each.differences for name, each in found.items() if each is not None}
        if differences and len(differences) == len(found) and all(differences.values()):
            faults.append(_other_place(seed, differences))
    if faults:
        raise StudyConflict(*faults)


def _other_place(seed: int, found: Mapping[str, Sequence[Difference]]) -> Fault:
    every = {each.field: each for differences in found.values() for each in differences}
    has = [
        f"{slot} with " + ", ".join(f"{each.field} {each.has}" for each in differences)
        for slot, differences in found.items()
    ]
    return Fault(
        what=f"trials of seed {seed} have run in another environment; arms are compared within a "
        "seed",
        where="run.slots" if DEVICE in every else None,
        got="; ".join(has),
        expected=", ".join(f"{field} {each.began_with}" for field, each in sorted(every.items())),
        hint=f"Run it where there is one, or {_GO_ON_ELSEWHERE}",
    )


def started_cells(store: StudyStore) -> list[str]:
    """Returns the cells that make the study count as started."""
    ended = {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}
    return [f"{cell.cell} {cell.outcome}" for cell in store.cells() if cell.outcome in ended]


def _way_on(store: StudyStore, folder: StudyFolder, study_file: Path) -> str:
    """Returns what whoever has another study under a recorded one's name can do."""
    new_name = f"`sweeper run {study_file} --as NEW-NAME` starts a study of its own"
    if not folder.recorded_study.exists():  # it began in a run folder on another host's disk
        return (
            "Give this host the study file, data and model that the study began with elsewhere; "
            f"{new_name}"
        )
    if started_cells(store):
        return new_name
    return f"{new_name}; `--replace` discards the recorded one, of which no trial has ended"


def _other_study(known: RecordedStudy, plan: Plan, way_on: str) -> Iterator[Fault]:
    for change in differences(dict(known.protocol), plan.protocol):  # type: ignore[arg-type]  # it was one
        yield Fault(
            what="differs from the recorded study",
            where=change.key,
            got=change.new,
            expected=change.old,
        )
    yield Fault(
        what=f"the study {known.name!r} is on record with another fingerprint",
        got=plan.fingerprint[:12],
        expected=known.fingerprint[:12],
        hint=way_on,
    )


def _agreed_limits(folder: StudyFolder, known: RecordedStudy) -> Mapping[str, str | None]:
    """Returns the limits that the study began with, on this host or on another."""
    file = folder.recorded_study
    agreed = load_study(file) if file.exists() else parse_study(known.study_yaml, file)
    limits: Mapping[str, str | None] = agreed.study.run.limits.model_dump()
    return limits


def _other_limits(
    agreed: Mapping[str, str | None], run: RunOptions, amended: Mapping[str, str]
) -> Iterator[Fault]:
    """Yields limits that are neither those that the study began with nor those amended since."""
    for name, limit in run.limits.model_dump().items():
        if limit not in {agreed[name], amended.get(name, agreed[name])}:
            yield Fault(
                what="a limit is agreed before the first trial, for all arms alike",
                where=f"run.limits.{name}",
                got=_written(limit),
                expected=_written(amended.get(name, agreed[name])),
                hint="Put it back; `sweeper amend STUDY --limit` raises a limit on record, and "
                "--as NEW-NAME starts a study of its own",
            )


def _other_ways(store: StudyStore, run: RunOptions, *, elsewhere: bool) -> Iterator[Fault]:
    """Yields settings of `run` that must be equal within a seed, and would not be."""
    begun = {seed: place.environment for seed, place in store.seed_places().items()}
    unfinished = {cell.seed for cell in store.cells() if is_open(cell)}
    for seed in sorted(unfinished & begun.keys()):
        for field, wish in told_by_the_file(run).items():
            used = begun[seed].get(field, wish)
            may_differ = field in _MAY_BE_OTHERS
            if used != wish and not (may_differ and elsewhere):
                other_way = (
                    _GO_ON_ELSEWHERE if may_differ else "run the study under another name with --as"
                )
                yield Fault(
                    what=f"trials of seed {seed} have run with another value; arms are compared "
                    "within a seed",
                    where=f"run.{_KEYS.get(field, field)}",
                    got=wish,
                    expected=used,
                    hint=f"Put it back, or {other_way}",
                )


_KEYS = MappingProxyType({"ranks": "devices_per_trial"})
"""Keys of `run` that are not named like the field that a trial reports."""


def _written(limit: str | None) -> str:
    return "null" if limit is None else limit
