"""What a run folder says of its study without any database: read, and checked, never guessed at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from sweeper.errors import EventsDamaged, Fault, RunFolderError, StudyConflict
from sweeper.records import Event
from sweeper.selection.chain import EntryKind, Link, verify
from sweeper.store.planning import RecordedStudy
from sweeper.study.chain_file import read_chain_file
from sweeper.study.fingerprint import fingerprint
from sweeper.study.folder import StudyFolder
from sweeper.study.plan import Cell
from sweeper.study.spec import TrialSpec
from sweeper.sweep.journal import JournalFile, read_journal_file
from sweeper.sweep.verdicts import Claimed, Verdict, read_claim, read_verdict
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.tail import EventTail


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRemains:
    """What is left of one attempt.

    Attributes:
        claimed: Whose it was; None where it came to its end before it could say so.
        verdict: None where no coordinator judged it.
        late: Results that came when the cell had been taken from it.
        events: How many can be read.
        damage: What is wrong with the rest.
    """

    cell: Cell
    number: int
    folder: AttemptFolder
    claimed: Claimed | None
    verdict: Verdict | None
    late: tuple[Verdict, ...]
    events: int
    damage: str | None

    def read_events(self) -> tuple[Event, ...]:
        """Returns the events that can be read; of one attempt at a time, for there may be many."""
        return _events(self.folder)[0]

    @property
    def name(self) -> str:
        """How a person names it."""
        return f"{self.cell.id}, attempt {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Everything that a record can be made anew from.

    Attributes:
        cells: In plan order.
        attempts: By the cell's id, the first one first; cells that never started are left out.
        chain: Of the record; empty where its mirror is gone.
        data: What was prepared, see `Plan`.
    """

    study: RecordedStudy
    cells: tuple[Cell, ...]
    attempts: Mapping[str, Sequence[AttemptRemains]]
    journal: JournalFile
    chain: tuple[Link, ...]
    data: Mapping[str, object]

    def cells_added_until(self, at: str) -> tuple[Cell, ...]:
        """Returns the cells that the study had at that time, by the database's clock.

        A round whose entry the chain has not was there from the start, as far as is known.
        """
        notes = (link for link in self.chain if link.kind == EntryKind.NOTE)
        later = {link.facts.get("round") for link in notes if link.at > at}
        return tuple(cell for cell in self.cells if cell.round not in later)


def remains_of(folder: StudyFolder) -> Remains:
    """Returns what the run folder holds of its study.

    Raises:
        RunFolderError: The plan, the journal or a file of an attempt is damaged or missing, or the
            mirror of the chain is not whole.
        StudyConflict: An attempt of another study lies in the folder. All faults of the attempts
            are told at once.
    """
    study, cells, data = _plan(folder)
    journal = read_journal_file(folder.journal)
    chain = _chain(folder)
    faults: list[Fault] = list(_strangers(folder, cells))
    attempts: dict[str, list[AttemptRemains]] = {}
    for cell in cells:
        for number in _numbers(folder, cell, faults):
            place = AttemptFolder(folder.attempt(arm=cell.arm, seed=cell.seed, number=number))
            found = _attempt(study, cell, number, place, faults)
            if found is not None:
                attempts.setdefault(cell.id, []).append(found)
    if faults:
        raise StudyConflict(*faults)
    return Remains(
        study=study, cells=cells, attempts=attempts, journal=journal, chain=chain, data=data
    )


def _chain(folder: StudyFolder) -> tuple[Link, ...]:
    links = read_chain_file(folder.chain)
    breaks = verify(links)
    if breaks:
        raise RunFolderError(
            Fault(
                what=f"the mirror of the chain is not whole: {breaks[0].sentence}",
                where=str(folder.chain),
                hint="Put a copy of it back that is. Without the file the chain begins anew, and "
                "says nothing of what was frozen or opened",
            )
        )
    return links


def _plan(
    folder: StudyFolder,
) -> tuple[RecordedStudy, tuple[Cell, ...], Mapping[str, object]]:
    try:
        text = folder.recorded_study.read_bytes().decode()
        plain = json.loads(folder.plan.read_bytes())
        study = RecordedStudy(
            name=plain["name"],
            fingerprint=plain["fingerprint"],
            protocol=plain["protocol"],
            study_yaml=text,
            factor_key=plain["factor_key"],
            arms=dict(plain["arms"]),
            seeds=tuple(plain["seeds"]),
            budget_target_tokens=plain["budget_target_tokens"],
        )
        cells = tuple(Cell(**cell) for cell in plain["cells"])
        data = dict(plain["data"])
    except OSError as error:
        raise _without_plan(folder, f"{error.strerror}: {error.filename}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _without_plan(folder, f"{folder.plan.name}: {error!r}"[:200]) from error
    if fingerprint(plain["protocol"]) != study.fingerprint:
        raise _without_plan(folder, "a protocol that does not have the plan's fingerprint")
    return study, cells, data


def _without_plan(folder: StudyFolder, got: str) -> RunFolderError:
    return RunFolderError(
        Fault(
            what="the run folder does not say what was planned",
            where=str(folder.path),
            got=got,
            expected=f"{folder.recorded_study.name} and {folder.plan.name}, as the study left them",
            hint="Put a copy of them back; without them nothing can be made anew",
        )
    )


def _strangers(folder: StudyFolder, cells: Sequence[Cell]) -> Iterator[Fault]:
    """Yields the folders of trials that the plan does not have."""
    known = {folder.attempt(arm=cell.arm, seed=cell.seed, number=1).parents[1] for cell in cells}
    for place in sorted(folder.trials.iterdir()) if folder.trials.is_dir() else ():
        if place not in known:
            yield Fault(
                what="the plan has no such trial", where=str(place), hint="Move it out of the way"
            )


def _numbers(folder: StudyFolder, cell: Cell, faults: list[Fault]) -> range:
    """Returns the numbers of the cell's attempts; a gap is a fault."""
    place = folder.attempt(arm=cell.arm, seed=cell.seed, number=1).parent
    found = {int(path.name) for path in place.glob("*") if path.name.isdecimal()}
    last = max(found, default=0)
    missing = sorted(set(range(1, last + 1)) - found)
    if missing:
        faults.append(
            Fault(
                what=f"attempt {missing[0]} of {cell.id} is gone, though a later one is there",
                where=str(place),
                hint="Put its folder back from a copy",
            )
        )
        return range(0)
    return range(1, last + 1)


def _attempt(
    study: RecordedStudy, cell: Cell, number: int, folder: AttemptFolder, faults: list[Fault]
) -> AttemptRemains | None:
    try:
        claimed, verdict = read_claim(folder), read_verdict(folder.verdict)
        late = tuple(found for file in folder.late_verdicts if (found := read_verdict(file)))
        fault = _spec_fault(study, cell, number, folder, has_verdict=verdict is not None)
    except ValueError as error:
        fault = Fault(what=str(error), hint="Put a copy of the file back")
    for said in (*late, verdict, claimed) if fault is None else ():
        if said is not None and (said.claim.cell, said.claim.attempt) != (cell.id, number):
            got = f"{said.claim.cell}, attempt {said.claim.attempt}"
            what = "the folder is another attempt's"
            fault = Fault(
                what=what, where=str(folder.path), got=got, expected=f"{cell.id}, {number}"
            )
    if fault is not None:
        faults.append(fault)
        return None
    events, damage = _events(folder)
    known = None if verdict is None else verdict.events
    if damage is None and known is not None and len(events) < known:
        damage = f"events.jsonl holds {len(events)} events, {known} were on record: it was cut"
    return AttemptRemains(
        cell=cell,
        number=number,
        folder=folder,
        claimed=claimed,
        verdict=verdict,
        late=late,
        events=len(events),
        damage=damage,
    )


def _spec_fault(
    study: RecordedStudy, cell: Cell, number: int, folder: AttemptFolder, *, has_verdict: bool
) -> Fault | None:
    """Returns why the attempt may be none of this study, if its spec says so or is not there.

    One that was never told anything has nothing of a trial in it either.
    """
    try:
        spec = TrialSpec.read(folder.spec)
    except FileNotFoundError:
        if folder.events.exists() and not has_verdict:
            return Fault(
                what="the attempt's spec.json is missing: nobody can say what it was told",
                where=str(folder.path),
                hint="Put a copy of it back",
            )
        return None
    except (ValidationError, ValueError):
        what = "damaged, or written by another sweeper"
        return Fault(what=what, where=str(folder.spec), hint="Put a copy of the file back")
    if spec.fingerprint != study.fingerprint:
        return Fault(
            what="the attempt is of another study",
            where=str(folder.path),
            got=f"{spec.study}, fingerprint {spec.fingerprint[:12]}",
            expected=f"{study.name}, fingerprint {study.fingerprint[:12]}",
            hint="Move it out of the way",
        )
    if (spec.cell, spec.attempt) != (cell.id, number):
        what, got = "the folder is another attempt's", f"{spec.cell}, attempt {spec.attempt}"
        return Fault(what=what, where=str(folder.path), got=got, expected=f"{cell.id}, {number}")
    return None


def _events(folder: AttemptFolder) -> tuple[tuple[Event, ...], str | None]:
    """Returns the events that can be read, and what is wrong with the rest."""
    events: list[Event] = []
    tail = EventTail(folder.events)
    try:
        while fresh := tail.read():
            events += fresh
    except EventsDamaged as error:
        return tuple(events), str(error)
    return tuple(events), None
