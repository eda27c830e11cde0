"""Whether the test split may be opened, and what would be evaluated. Reads no test record."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sweeper.data.manifest import Manifest
from sweeper.data.options import DataOptions, SealedSource
from sweeper.errors import Fault, NotFound, PlanError, StudyConflict
from sweeper.opening.checkpoints import frozen_checkpoints
from sweeper.opening.request import OpeningRequest
from sweeper.selection.chain import Link, verify
from sweeper.selection.frozen import Frozen
from sweeper.selection.opened import Openings, openings_in
from sweeper.selection.opened_sentences import SPENT
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.places import prepare_request, resolved_model
from sweeper.study.recorded import recorded_url

FROZEN = "frozen"
"""In an intent: digest of the entry with the selection that it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningOrder:
    """What a user asks for.

    Attributes:
        test: Where the test records are now; None: where the study file says.
        reason: Why the test split is opened again; None for the first time.
    """

    test: Path | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningPlan:
    """An opening that may take place.

    Attributes:
        digest: Of the chain's entry with the frozen choice.
        sealed: Digest of the ordered canonical records that the test split must have.
        records: How many those are; None where only the digest is known.
        reason: Why it is opened again; None for the first time.
    """

    frozen: Frozen
    digest: str
    openings: Openings
    request: OpeningRequest
    sealed: str
    records: int | None
    reason: str | None


def recorded_openings(folder: StudyFolder) -> Openings:
    """Returns what is on record about the test split of a begun study.

    Raises:
        StoreError: The database cannot be read.
    """
    url = recorded_url(folder, os.environ)
    assert url is not None, "the caller has found it on record"
    with StudyStore.read(url) as store:
        return openings_in(store.chain.links())


def plan_opening(
    store: StudyStore, study_file: StudyFile, folder: StudyFolder, order: OpeningOrder
) -> OpeningPlan:
    """Returns what would be evaluated.

    Raises:
        StudyConflict: Nothing is frozen, the chain is not whole, weights are not those that were
            frozen, or the test split was opened before.
        PlanError: The study has no test split, or there is nothing to repeat.
        NotFound: There is no file with test records.
    """
    manifest = Manifest.read(folder.prepared)
    links = store.chain.links()
    if faults := [Fault(what=found.sentence, where="chain") for found in verify(links)]:
        raise StudyConflict(*faults)
    openings = openings_in(links)
    link = _frozen(openings, folder)
    frozen = Frozen.from_facts(link.facts)
    sealed = _sealed(store, manifest)
    _refuse_opened(openings, link, order)
    checkpoints = frozen_checkpoints(frozen, store, folder.path)
    study, base = study_file.study, study_file.path.parent
    asked = prepare_request(study, base)
    return OpeningPlan(
        frozen=frozen,
        digest=link.digest,
        openings=openings,
        request=OpeningRequest(
            prepared=str(folder.prepared.resolve()),
            model=resolved_model(study, base, commit=manifest.model_commit),
            tokenizer=asked.model.model_copy(
                update={"revision": manifest.model_commit or asked.model.revision}
            ),
            records=_with_test_file(asked.data, order.test),
            checkpoints=checkpoints,
        ),
        sealed=sealed,
        records=None if manifest.test is None else manifest.test.records,
        reason=order.reason,
    )


def _frozen(openings: Openings, folder: StudyFolder) -> Link:
    if openings.frozen is None:
        raise StudyConflict(
            Fault(
                what="nothing is frozen, and the test split is opened for a frozen choice alone",
                where=str(folder.path),
                hint="`sweeper select STUDY` freezes the choice",
            )
        )
    return openings.frozen


def _sealed(store: StudyStore, manifest: Manifest) -> str:
    """Returns the seal, by the manifest and by the rules that the study began with.

    Raises:
        PlanError: The study has no test split.
        StudyConflict: The two differ.
    """
    if manifest.test is None:
        raise PlanError(
            Fault(
                what="the study has no test split",
                where="data.test",
                hint="A study of its own, under another name, can have one",
            )
        )
    found, agreed = manifest.test.records_digest, _agreed_seal(store)
    if found != agreed:
        what = "the manifest names other test records than the study began with"
        raise StudyConflict(Fault(what=what, where="data.test", got=found, expected=agreed))
    return found


def _agreed_seal(store: StudyStore) -> str | None:
    value: object = store.study().protocol
    for key in ("data", "splits", "test"):
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else str(value)


def _refuse_opened(openings: Openings, link: Link, order: OpeningOrder) -> None:
    """Refuses a second opening, one for another choice, and a repetition of nothing."""
    if openings.results and openings.results[0].frozen != link.digest:
        raise StudyConflict(Fault(what=SPENT.rstrip("."), where="data.test"))
    if openings.results and order.reason is None:
        raise StudyConflict(
            Fault(
                what="the test split was opened before, and only the first opening counts",
                where="data.test",
                got=f"a result of {openings.result_links[0].at}",
                hint='`--repeat --reason "WHY"` evaluates it once more, and marks the study',
            )
        )
    if not openings.results and order.reason is not None:
        what = "there is no result yet that an opening could repeat"
        raise PlanError(Fault(what=what, where="--repeat", hint="Leave the option out"))
    begun = openings.unfinished
    if begun is not None and begun.facts.get(FROZEN) != link.digest:
        raise StudyConflict(begun_for_another(f"entry {begun.number} of the chain, {begun.at}"))


def begun_for_another(where: str) -> Fault:
    """Returns what to say of an opening that was begun for another choice."""
    return Fault(
        what="an opening of the test split was begun for another choice and had no result: it can "
        "be taken up for that choice only",
        where=where,
        hint="The records may have been seen by then: a new sealed test split is needed for a "
        "number that confirms anything",
    )


def _with_test_file(data: DataOptions, test: Path | None) -> DataOptions:
    """Returns the options with the file that holds the test records now.

    Raises:
        NotFound: There is none.
    """
    if test is not None:
        part = "source" if data.split is not None else "test"
        known = data.source if data.split is not None else SealedSource(path=str(test))
        assert known is not None
        path = str(test.resolve())
        data = data.model_copy(update={part: known.model_copy(update={"path": path})})
    source = data.source if data.split is not None else data.test
    path_now = None if source is None else source.path
    if path_now is None or not Path(path_now).is_file():
        raise NotFound(
            Fault(
                what="there is no file with the test records",
                where="data.test" if path_now is None else path_now,
                hint="Name it with --test FILE; it is held against the digest that was sealed",
            )
        )
    return data
