"""Freezes the choice: by the agreed rule, from what is on record, for weights that are there now.

Frozen, a study is closed. The test split is opened for its frozen choice alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.errors import Fault, StudyConflict
from sweeper.records import OutcomeKind, Reason
from sweeper.selection.chain import ChainBreak, EntryKind, verify
from sweeper.selection.comparison import Comparison, compare
from sweeper.selection.evidence import BASELINE, Arm, CellEvidence, StudyEvidence
from sweeper.selection.frozen import (
    Frozen,
    FrozenCheckpoint,
    Role,
    environment_digest,
    tables_of,
    untrained_digest,
)
from sweeper.selection.opened import Openings, openings_in
from sweeper.selection.wording import listing
from sweeper.store.plain import storable
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.sweep.extending import ReadEvidence, next_round
from sweeper.sweep.interventions import attended
from sweeper.sweep.observer import Observer
from sweeper.sweep.study_end import is_open
from sweeper.training.folder_digest import folder_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How the choice is to be frozen.

    Attributes:
        partial: Also while trials are open, which then never come to an end.
        reason: Why it is partial, or frozen again; None where neither is so.
    """

    partial: bool = False
    reason: str | None = None

    @property
    def why(self) -> str:
        """Why trials that are open then end: what is on record of them."""
        why = "the choice was frozen"
        return why if self.reason is None else f"{why}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A choice, and its place in the chain.

    Attributes:
        digest: Of its entry; None where it was not frozen.
    """

    choice: Frozen
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What is decided on.

    Attributes:
        evidence: As it is once the study is closed.
        earlier: The study's frozen choices so far.
        openings: What is on record about the test split.
        open_cells: Those that were not brought to an end.
        is_closed: Whether the study is closed as it is.
        next_arm: The arm that the study is to be extended by; None for none.
    """

    store: StudyStore
    folder: StudyFolder
    evidence: StudyEvidence
    comparison: Comparison
    earlier: tuple[Frozen, ...]
    openings: Openings
    open_cells: tuple[CellRecord, ...]
    is_closed: bool
    next_arm: Arm | None
    wish: Wish

    @property
    def open_trials(self) -> tuple[str, ...]:
        """The names of those that were not brought to an end."""
        return tuple(cell.cell for cell in self.open_cells)

    @property
    def may_run(self) -> tuple[str, ...]:
        """The names of those that `sweeper run` goes on with."""
        return () if self.earlier else tuple(c.cell for c in self.open_cells if is_open(c))

    @property
    def is_left_out_before(self) -> bool:
        """Whether an earlier choice was frozen without the same trials."""
        return any(each.open_trials == self.open_trials for each in self.earlier)


def freeze(
    study_file: StudyFile,
    folder: StudyFolder,
    read: ReadEvidence,
    *,
    wish: Wish,
    observer: Observer,
) -> Freeze:
    """Freezes the study's choice, which closes the study; Optuna's study is told.

    Raises:
        StudyConflict: See `choice_of`.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    with attended(study_file, folder, observer) as store:
        choice = choice_of(store, folder, read, wish=wish)
        link = store.freeze(choice, wish.why)
    return Freeze(choice=choice, digest=link.digest)


def choice_of(store: StudyStore, folder: StudyFolder, read: ReadEvidence, *, wish: Wish) -> Frozen:
    """Returns the choice as it would be frozen now; nothing is changed.

    Raises:
        StudyConflict: Trials are open, nothing is chosen, weights are not those on record, it is
            frozen already, or the test split is being opened; all of it is told at once. Or the
            chain is not whole.
        StoreError: The database cannot be read.
    """
    cells = store.cells()
    evidence = _once_closed(read(store), cells, wish.why)
    links = store.chain.links()
    if faults := [_broken(found, folder) for found in verify(links)]:
        raise StudyConflict(*faults)
    frozen = (link for link in links if link.kind == EntryKind.SELECTION_FROZEN)
    due = next_round(store, read)
    case = _Case(
        store=store,
        folder=folder,
        evidence=evidence,
        comparison=compare(evidence),
        earlier=tuple(Frozen.from_facts(link.facts) for link in frozen),
        openings=openings_in(links),
        open_cells=tuple(cell for cell in cells if not _was_brought_to_an_end(cell)),
        is_closed=store.is_closed(),
        next_arm=None if due is None else due.next_arm,
        wish=wish,
    )
    faults = list(_refusals(case))
    arm = case.comparison.choice.arm
    if arm is None:
        raise StudyConflict(*faults)
    checkpoints = _checkpoints(case, arm, faults)
    if faults:
        raise StudyConflict(*faults)
    return _frozen(case, arm, checkpoints)


def _broken(found: ChainBreak, folder: StudyFolder) -> Fault:
    return Fault(
        what=f"the chain is not whole, and nothing is added to it: {found.sentence}",
        where=str(folder.path),
        hint="`sweeper audit STUDY` says what else does not agree",
    )


def _once_closed(evidence: StudyEvidence, cells: Sequence[CellRecord], why: str) -> StudyEvidence:
    """Returns the evidence as the record has it after the freeze, which ends what is open."""
    ending = {(cell.arm, cell.seed) for cell in cells if is_open(cell)}

    def closed(cell: CellEvidence) -> CellEvidence:
        if (cell.arm, cell.seed) not in ending:
            return cell
        return dataclasses.replace(cell, reason=Reason.USER_CANCELLED, detail=storable(why))

    return dataclasses.replace(
        evidence,
        cells=tuple(map(closed, evidence.cells)),
        repeat=None if evidence.repeat is None else closed(evidence.repeat),
        repeat_is_open=False,
        closed=True,
    )


def _refusals(case: _Case) -> Iterator[Fault]:
    if case.comparison.choice.arm is None:
        yield _nothing(case)
    else:
        yield from _what_is_left(case)
    if case.earlier and case.wish.reason is None:
        yield Fault(
            what="the choice is frozen already",
            got=case.earlier[-1].arm,
            hint="--reason TEXT freezes it again, which is counted and shown",
        )
    if case.openings.unfinished is not None:
        yield Fault(
            what="the test split is being opened for the frozen choice, which therefore stays",
            got=case.earlier[-1].arm if case.earlier else None,
            hint="`sweeper open-test STUDY` brings it to its end",
        )


def _nothing(case: _Case) -> Fault:
    """Returns that there is nothing to freeze, whatever else is the matter."""
    goes_on = bool(case.may_run) or case.next_arm is not None
    hint = (
        "`sweeper run STUDY` goes on with what is left"
        if goes_on
        else "There is nothing to freeze: `sweeper compare STUDY` says what the study shows"
    )
    what = case.comparison.choice.sentence.removesuffix(".")
    return Fault(what=what, where=str(case.folder.path), hint=hint)


def _what_is_left(case: _Case) -> Iterator[Fault]:
    """Yields that the study has not come to its end, unless that is wished for and can be."""
    wish = case.wish
    if case.is_left_out_before:
        return
    if case.open_trials and not wish.partial:
        yield Fault(
            what="trials have not been brought to an end",
            where=", ".join(case.open_trials),
            hint=". ".join((*_ways_on(case), _WITHOUT_THEM)),
        )
    if case.next_arm is not None and not wish.partial:
        yield Fault(
            what="the best rate is at the edge, and the study was to go on with a further arm then",
            where=case.next_arm.name,
            hint="`sweeper run STUDY` adds and runs it. `sweeper select STUDY --partial --reason "
            "TEXT` freezes without it, for good",
        )
    running = [cell.cell for cell in case.open_cells if cell.status is CellStatus.RUNNING]
    if running and wish.partial:
        yield Fault(
            what="trials still run; the choice is frozen without them once they do not",
            where=", ".join(running),
            hint="Wait for them, or end the run with Ctrl-C. Jobs of an engine that no run looks "
            "after are taken up by `sweeper run STUDY`",
        )
    if (case.open_trials or case.next_arm) and wish.partial and wish.reason is None:
        yield Fault(what="a choice without all trials needs a reason", hint="Add --reason TEXT")


_WITHOUT_THEM = (
    "`sweeper select STUDY --partial --reason TEXT` freezes without them: they count as missing "
    "then, for good"
)


def _ways_on(case: _Case) -> Iterator[str]:
    """Yields which commands let trials that are open come to an end after all."""
    cancelled = [cell for cell in case.open_cells if cell.outcome is OutcomeKind.CANCELLED]
    if case.may_run:
        is_all = case.may_run == case.open_trials
        yield f"`sweeper run STUDY` goes on with {'them' if is_all else listing(case.may_run)}"
    if cancelled and not case.is_closed:
        yield "`sweeper retry STUDY TRIAL` lets a cancelled one run again"


def _was_brought_to_an_end(cell: CellRecord) -> bool:
    """Whether the cell was: what the user cancelled was not."""
    return cell.status is CellStatus.ENDED and cell.outcome is not OutcomeKind.CANCELLED


def _frozen(case: _Case, arm: str, checkpoints: Sequence[FrozenCheckpoint]) -> Frozen:
    earlier, wish, evidence = case.earlier, case.wish, case.evidence
    reasons = earlier[-1].reasons if earlier else ()
    with_weights = {(each.arm, each.seed) for each in checkpoints if each.arm is not None}
    of_interest = [(name, seed) for seed in evidence.seeds for name in _arms(arm)]
    which = "with the lowest validation loss" if evidence.is_at_best else "at the end of training"
    return Frozen(
        number=len(earlier) + 1,
        arm=arm,
        sentence=case.comparison.choice.sentence,
        answer=case.comparison.answer.sentence,
        protocol=case.store.study().fingerprint,
        tables=tables_of(evidence, case.comparison),
        checkpoints=tuple(checkpoints),
        without_weights=tuple(
            f"{name}/{seed}" for name, seed in of_interest if (name, seed) not in with_weights
        ),
        metric=f"loss in nats per target token, of the weights {which}",
        environment=environment_digest(
            evidence, [place for place in of_interest if place in with_weights]
        ),
        open_trials=case.open_trials,
        reasons=reasons if wish.reason is None else (*reasons, wish.reason),
        is_spent=bool(case.openings.results),
    )


def _arms(chosen: str) -> tuple[str, ...]:
    return (BASELINE,) if chosen == BASELINE else (chosen, BASELINE)


def _checkpoints(case: _Case, arm: str, faults: list[Fault]) -> list[FrozenCheckpoint]:
    """Returns what the test split is opened for, and adds what is wrong with it to the faults."""
    found: list[FrozenCheckpoint] = []
    for seed in case.evidence.seeds:
        for name in _arms(arm):
            if case.evidence.cell(name, seed).is_completed:
                role = Role.BASELINE if name == BASELINE else Role.CHOSEN
                found.append(_trained(case, role, name, seed, faults))
        if (untrained := _untrained(case, arm, seed)) is not None:
            found.append(untrained)
    return found


def _trained(case: _Case, role: Role, arm: str, seed: int, faults: list[Fault]) -> FrozenCheckpoint:
    row = case.store.attempts(f"{arm}/{seed}")[-1]
    kind = "best" if case.evidence.is_at_best else "adapter"
    path, recorded = str(row[f"{kind}_path"]), str(row[f"{kind}_sha256"])
    weights = case.folder.path / path
    hint = "Put the folder back as the trial left it; its digest is on record"
    if not weights.is_dir():
        faults.append(Fault(what="weights are gone", where=str(weights), hint=hint))
    elif (sha256 := folder_digest(weights)) != recorded:
        what = "the weights are not those that the trial left"
        faults.append(
            Fault(what=what, where=str(weights), got=sha256, expected=recorded, hint=hint)
        )
    return FrozenCheckpoint(role=role, arm=arm, seed=seed, path=path, sha256=recorded)


def _untrained(case: _Case, arm: str, seed: int) -> FrozenCheckpoint | None:
    """Returns what the trials of the seed began as; None where none of the arms' got so far."""
    cells = [case.evidence.cell(name, seed) for name in (BASELINE, arm)]
    began = [cell for cell in cells if cell.initial_loss is not None]
    if not began:
        return None
    sha256 = untrained_digest(case.store.study().protocol, began[0].initial_digest)
    return FrozenCheckpoint(role=Role.INITIAL, arm=None, seed=seed, path=None, sha256=sha256)
