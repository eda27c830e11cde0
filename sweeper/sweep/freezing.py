"""Freezes the choice: by the agreed rule, from what is on record, for weights that are there now.

Frozen, a study is closed. The test split is opened for its frozen choice alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeper.errors import Fault, StudyConflict
from sweeper.records import OutcomeKind
from sweeper.selection.chain import ChainBreak, EntryKind, verify
from sweeper.selection.comparison import Comparison, compare
from sweeper.selection.evidence import BASELINE, Arm, StudyEvidence
from sweeper.selection.frozen import (
    Frozen,
    FrozenCheckpoint,
    Role,
    environment_digest,
    tables_of,
    untrained_digest,
)
from sweeper.selection.opened import Openings, openings_in
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.sweep.extending import ReadEvidence, next_round
from sweeper.sweep.interventions import attended
from sweeper.sweep.observer import Observer
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
        evidence: As it is once no trial goes on.
        earlier: The study's frozen choices so far.
        openings: What is on record about the test split.
        next_arm: The arm that the study is to be extended by; None for none.
    """

    store: StudyStore
    folder: StudyFolder
    evidence: StudyEvidence
    comparison: Comparison
    earlier: tuple[Frozen, ...]
    openings: Openings
    open_trials: tuple[str, ...]
    next_arm: Arm | None
    wish: Wish


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
        why = "the choice was frozen"
        link = store.freeze(choice, why if wish.reason is None else f"{why}: {wish.reason}")
    return Freeze(choice=choice, digest=link.digest)


def choice_of(store: StudyStore, folder: StudyFolder, read: ReadEvidence, *, wish: Wish) -> Frozen:
    """Returns the choice as it would be frozen now; nothing is changed.

    Raises:
        StudyConflict: Trials are open, nothing is chosen, weights are not those on record, it is
            frozen already, or the test split is being opened; all of it is told at once. Or the
            chain is not whole.
        StoreError: The database cannot be read.
    """
    evidence = dataclasses.replace(read(store), closed=True)
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
        open_trials=tuple(cell.cell for cell in store.cells() if _is_open(cell)),
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


def _refusals(case: _Case) -> Iterator[Fault]:
    wish = case.wish
    if case.comparison.choice.arm is None:
        yield Fault(
            what=case.comparison.choice.sentence.removesuffix("."),
            where=str(case.folder.path),
            hint="There is nothing to freeze: `sweeper compare STUDY` says what the study shows",
        )
    if case.open_trials and not wish.partial:
        yield Fault(
            what="trials have not been brought to an end",
            where=", ".join(case.open_trials),
            hint="`sweeper run STUDY` goes on with them. `sweeper select STUDY --partial --reason "
            "TEXT` freezes without them: they count as missing then, for good",
        )
    if case.next_arm is not None and not wish.partial:
        yield Fault(
            what="the best rate is at the edge, and the study was to go on with a further arm then",
            where=case.next_arm.name,
            hint="`sweeper run STUDY` adds and runs it. `sweeper select STUDY --partial --reason "
            "TEXT` freezes without it, for good",
        )
    if (case.open_trials or case.next_arm) and wish.partial and wish.reason is None:
        yield Fault(what="a choice without all trials needs a reason", hint="Add --reason TEXT")
    if case.earlier and wish.reason is None:
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


def _is_open(cell: CellRecord) -> bool:
    """Whether the cell was not brought to an end: what the user cancelled was not either."""
    return cell.status is not CellStatus.ENDED or cell.outcome is OutcomeKind.CANCELLED


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
