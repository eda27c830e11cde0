"""Makes a study's database anew from its run folder: built beside the old one, then switched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sweeper.errors import Fault, NotFound, StudyBusy, StudyConflict
from sweeper.store.claims import Claim, Owner
from sweeper.store.condition import Condition, condition_of
from sweeper.store.store import StudyStore
from sweeper.store.switching import (
    remove_built_file,
    remove_built_schema,
    switch_file,
    switch_schema,
)
from sweeper.study.database_place import note_database_file, rebuilt_database_file
from sweeper.study.folder import StudyFolder, sqlite_url
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.storage import SQLITE, database_url, schema_name
from sweeper.sweep.adopting import adopt_leftovers, left_behind, refuse_others
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.mirroring import mirror
from sweeper.sweep.observer import Observer
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.remains import AttemptRemains, Remains, remains_of
from sweeper.sweep.restoring import Restoring
from sweeper.sweep.silence import Patience, silent_claims
from sweeper.sweep.study_run import terms_of

_BESIDE = "~rebuilt"
_ASIDES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredAttempt:
    """One attempt, and what it is on record by.

    Attributes:
        outcome: Of its verdict; None where nobody judged it.
        events: How many can be read.
        damage: What is wrong with the rest.
    """

    trial: str
    attempt: int
    outcome: str | None
    reason: str | None
    events: int
    damage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """What a rebuilding does, or would do.

    Attributes:
        place: Where the database is; no password is in it.
        condition: What was there.
        interventions: How many changes by hand are done again.
        aside: Where the old database is kept now; None if there was none, or none was moved yet.
    """

    name: str
    place: str
    condition: Condition
    attempts: Sequence[RestoredAttempt]
    interventions: int
    aside: str | None = None


class _Place(Protocol):
    """Where a database is, and where another one is built for it."""

    name: str
    """For people; no password is in it."""
    url: str
    built_url: str
    is_on_server: bool
    """Whether several hosts may use it at once."""

    def clear(self) -> None:
        """Removes what an earlier call built and did not put in place."""

    def switch(self) -> str | None:
        """Puts the built one in place; returns where the old one is kept."""


def rebuild_plan(folder: StudyFolder) -> Rebuilding:
    """Returns what `rebuild` would do; nothing is changed.

    Raises:
        NotFound: No study has begun in the folder.
        RunFolderError: See `remains_of`.
        StudyConflict: Likewise.
        StoreError: The database cannot be reached.
    """
    study_file = _recorded(folder)
    remains = remains_of(folder)
    place = _place(study_file, folder)
    return _rebuilding(remains, place, condition_of(place.url))


def rebuild(folder: StudyFolder, *, replace: bool, observer: Observer) -> Rebuilding:
    """Makes the study's database anew; whoever is killed is followed by a call that does it all.

    The old database is moved aside. Attempts that nobody judged are, as `sweeper run` does it.

    Args:
        replace: Also if the database that is there is whole.

    Raises:
        NotFound: No study has begun in the folder.
        RunFolderError: See `remains_of`.
        StudyConflict: Likewise; or the database is whole, and not to be replaced.
        StudyBusy: A coordinator runs the study; on another host, as far as the database that is
            there can say so.
        StoreError: The database cannot be reached, or not be written.
    """
    study_file = _recorded(folder)
    with only_coordinator(folder) as owner:
        remains = remains_of(folder)
        place = _place(study_file, folder)
        condition = condition_of(place.url)
        _refuse_whole(place, condition, folder, replace=replace)
        silent = _silent(place, condition, observer)
        _refuse_at_work(place, condition, owner, silent)
        place.clear()
        _build(remains, place, study_file, folder, owner, observer)
        try:  # once more: one may have begun meanwhile
            fences = _refuse_at_work(place, condition, owner, silent)
        except StudyBusy:
            place.clear()
            raise
        with StudyStore.open(place.built_url) as store:
            store.restored.fence_off(beyond=fences)
        aside = place.switch()
    return _rebuilding(remains, place, condition, aside=aside)


def _recorded(folder: StudyFolder) -> StudyFile:
    if not folder.recorded_study.exists():
        raise NotFound(
            Fault(
                what="no study has begun in this folder",
                where=str(folder.path),
                hint="Name a study file, or the folder runs/NAME that a run of it made",
            )
        )
    return load_study(folder.recorded_study)


def _refuse_whole(
    place: _Place, condition: Condition, folder: StudyFolder, *, replace: bool
) -> None:
    if replace or condition not in {Condition.WHOLE, Condition.OTHER_VERSION}:
        return
    raise StudyConflict(
        Fault(
            what="the study's database is whole, and is not replaced"
            if condition is Condition.WHOLE
            else "the study's database is another version's, and is not replaced",
            where=place.name,
            hint=f"`sweeper rebuild {folder.path} --replace` moves it aside and makes it anew; "
            "what is in it and not in the run folder is not taken over",
        )
    )


def _silent(place: _Place, condition: Condition, observer: Observer) -> frozenset[Claim]:
    """Returns the claims of other hosts in the database that count as lost, see `silence`."""
    if condition is not Condition.WHOLE:
        return frozenset()
    patience = Patience(lease=LeaseTerms(), observer=observer)
    with StudyStore.read(place.url) as store:
        return silent_claims(store, patience, on_server=place.is_on_server)


def _refuse_at_work(
    place: _Place, condition: Condition, owner: Owner, silent: Collection[Claim]
) -> int:
    """Refuses to replace a database by whose claims somebody may be running trials.

    Nothing in it is changed. One that is lost, damaged or another version's is not asked.

    Args:
        silent: Claims of other hosts that count as lost.

    Returns:
        The greatest fencing number in it; 0 where it is not asked.

    Raises:
        StudyBusy: Another coordinator may be running a trial.
        StoreError: It cannot be read.
    """
    if condition is not Condition.WHOLE:
        return 0
    with StudyStore.read(place.url) as store:
        left = left_behind(store, owner, locked=not place.is_on_server, silent=silent)
        refuse_others(store, on_server=place.is_on_server, besides=left)
        return store.greatest_fencing_number()


def _build(
    remains: Remains,
    place: _Place,
    study_file: StudyFile,
    folder: StudyFolder,
    owner: Owner,
    observer: Observer,
) -> None:
    """Makes a whole database at the built place, and gives its connections back."""
    terms = terms_of(study_file, remains.study.budget_target_tokens)
    with StudyStore.create(place.built_url) as store:
        optuna_study = OptunaStudy.open(
            place.built_url,
            name=remains.study.name,
            factor=remains.study.factor_key.rpartition(".")[2],
            cells=[cell for cell in remains.cells if cell.round == 0],
        )
        with contextlib.closing(optuna_study):
            restoring = Restoring(
                remains=remains,
                store=store,
                optuna_study=optuna_study,
                owner=owner,
                terms=terms,
                tell=observer.message,
            )
            restoring.everything()
            adopt_leftovers(store, folder, owner, terms=terms, observer=observer)
            restoring.the_end()
            mirror(store, folder, max_resumes=terms.max_resumes)


def _rebuilding(
    remains: Remains, place: _Place, condition: Condition, *, aside: str | None = None
) -> Rebuilding:
    return Rebuilding(
        name=remains.study.name,
        place=place.name,
        condition=condition,
        attempts=[_restored(a) for cell in remains.attempts.values() for a in cell],
        interventions=len(remains.journal.entries),
        aside=aside,
    )


def _restored(attempt: AttemptRemains) -> RestoredAttempt:
    outcome = None if attempt.verdict is None else attempt.verdict.outcome
    return RestoredAttempt(
        trial=attempt.cell.id,
        attempt=attempt.number,
        outcome=None if outcome is None else str(outcome.kind),
        reason=None if outcome is None else str(outcome.reason),
        events=attempt.events,
        damage=attempt.damage,
    )


def _place(study_file: StudyFile, folder: StudyFolder) -> _Place:
    storage = study_file.study.run.storage
    if storage == SQLITE:
        return _FilePlace(folder, rebuilt_database_file(folder, os.environ))
    return _SchemaPlace(storage, folder)


class _FilePlace:
    """An SQLite file."""

    is_on_server = False

    def __init__(self, folder: StudyFolder, file: Path) -> None:
        self._folder = folder
        self._file = file
        self._built = file.with_name(f"{file.name}{_BESIDE}")
        self.name = str(file)
        self.url = sqlite_url(file)
        self.built_url = sqlite_url(self._built)

    def clear(self) -> None:
        """See `_Place.clear`."""
        remove_built_file(self._built)

    def switch(self) -> str | None:
        """See `_Place.switch`."""
        aside = switch_file(self._built, self._file)
        if self._file != self._folder.database.resolve():
            note_database_file(self._folder, self._file)
        return None if aside is None else str(aside)


class _SchemaPlace:
    """A schema of a PostgreSQL database."""

    is_on_server = True

    def __init__(self, storage: str, folder: StudyFolder) -> None:
        self._study = folder.path.name
        self.name = f"schema {schema_name(self._study)} in the database of run.storage"
        self.url = database_url(storage, folder, os.environ)
        self.built_url = database_url(storage, folder, os.environ, beside=_BESIDE)

    def clear(self) -> None:
        """See `_Place.clear`."""
        remove_built_schema(self.built_url)

    def switch(self) -> str | None:
        """See `_Place.switch`."""
        aside = switch_schema(
            self.url,
            built=schema_name(self._study + _BESIDE),
            target=schema_name(self._study),
            asides=tuple(schema_name(f"{self._study}~aside-{n}") for n in range(1, _ASIDES)),
        )
        return None if aside is None else f"schema {aside}"
