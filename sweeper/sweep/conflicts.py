"""What a study file may not say once its study is on record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sweeper.errors import Fault, StudyConflict
from sweeper.records import OutcomeKind
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.fingerprint import differences
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.plan import Plan
from sweeper.study.run_options import RunOptions
from sweeper.sweep.devices import fits
from sweeper.sweep.study_end import is_open
from sweeper.workers.slots import Slot

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
        raise StudyConflict(*_other_study(store, known, plan, study_file.path))
    run = study_file.study.run
    faults = [
        *_other_limits(folder, run, store.amended_limits()),
        *_other_ways(store, run, elsewhere=elsewhere),
    ]
    if faults:
        raise StudyConflict(*faults)


def refuse_other_devices(store: StudyStore, slots: Sequence[Slot]) -> None:
    """Accepts the slots as places where the seeds that have begun can go on.

    Raises:
        StudyConflict: A seed has begun on a kind of device that none of the slots has.
    """
    unfinished = {cell.seed for cell in store.cells() if is_open(cell)}
    misplaced = {
        start.seed: start.environment["device"]
        for start in store.starts()
        if start.seed in unfinished and not any(fits(start, slot) for slot in slots)
    }
    faults = [_other_device(seed, used, slots) for seed, used in sorted(misplaced.items())]
    if faults:
        raise StudyConflict(*faults)


def _other_device(seed: int, used: str, slots: Sequence[Slot]) -> Fault:
    return Fault(
        what=f"trials of seed {seed} have run on another kind of device; arms are compared within "
        "a seed",
        where="run.slots",
        got=", ".join(slot.name for slot in slots),
        expected=used,
        hint=f"Run it where there is one, or {_GO_ON_ELSEWHERE}",
    )


def started_cells(store: StudyStore) -> list[str]:
    """Returns the cells that make the study count as started."""
    ended = {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}
    return [f"{cell.cell} {cell.outcome}" for cell in store.cells() if cell.outcome in ended]


def _other_study(
    store: StudyStore, known: RecordedStudy, plan: Plan, study_file: Path
) -> Iterator[Fault]:
    for change in differences(dict(known.protocol), plan.protocol):  # type: ignore[arg-type]  # it was one
        yield Fault(
            what="differs from the recorded study",
            where=change.key,
            got=change.new,
            expected=change.old,
        )
    way_on = f"`sweeper run {study_file} --as NEW-NAME` starts a study of its own"
    if not started_cells(store):
        way_on += "; `--replace` discards the recorded one, of which no trial has ended"
    yield Fault(
        what=f"the study {known.name!r} is on record with another fingerprint",
        got=plan.fingerprint[:12],
        expected=known.fingerprint[:12],
        hint=way_on,
    )


def _other_limits(
    folder: StudyFolder, run: RunOptions, amended: Mapping[str, str]
) -> Iterator[Fault]:
    """Yields limits that are neither those that the study began with nor those amended since."""
    if not folder.recorded_study.exists():
        return
    agreed = load_study(folder.recorded_study).study.run.limits.model_dump()
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
    begun = {start.seed: start.environment for start in store.starts()}
    unfinished = {cell.seed for cell in store.cells() if is_open(cell)}
    for seed in sorted(unfinished & begun.keys()):
        for field, wish in _told_by_the_file(run).items():
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


def _told_by_the_file(run: RunOptions) -> Mapping[str, str]:
    """What the file says of the environment that a trial reports, by its field's name."""
    return {
        "micro_batch": str(run.micro_batch),
        "ranks": str(run.devices_per_trial),
        "deterministic": "yes" if run.deterministic else "no",
    }


_KEYS = MappingProxyType({"ranks": "devices_per_trial"})
"""Keys of `run` that are not named like the field that a trial reports."""


def _written(limit: str | None) -> str:
    return "null" if limit is None else limit
