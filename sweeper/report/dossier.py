"""All that is on record of a study, as the report needs it: read once, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweeper.records import Notice
from sweeper.report.columns import Table, trial_columns
from sweeper.report.comparison import evidence
from sweeper.report.discretion import Discretion, discretion
from sweeper.report.recorded import agreed_settings, reading, run_folder
from sweeper.selection.chain import Link
from sweeper.selection.comparison import Comparison
from sweeper.selection.comparison import compare as judge
from sweeper.selection.evidence import CellEvidence, StudyEvidence
from sweeper.selection.frozen import Frozen
from sweeper.selection.opened import Openings, openings_in
from sweeper.store.decoding import reading as reading_record
from sweeper.store.planning import RecordedStudy
from sweeper.store.reading import AttemptEvent, Row, Start
from sweeper.store.restoring import Entry
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.following import taken_by
from sweeper.study.schema import Study
from sweeper.study.taken_choice import TakenChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """A study's record.

    Attributes:
        settings: The study file as it was when the study began.
        trials: One row per planned cell, the repeat of the baseline included.
        stretches: What every attempt in a trial's history started from.
        remarks: What attempts remarked on the way.
        interventions: What users changed by hand.
        links: The chain.
        frozen: The frozen choice; None before there is one.
        openings: What the chain says of the test split.
        metrics: What users attached to trials.
        taken: The earlier choice that the baseline is from; None where the file gives the rate.
        discretion: What the page leaves out; it has been applied to the evidence's details.
    """

    folder: StudyFolder
    recorded: RecordedStudy
    settings: Study
    evidence: StudyEvidence
    comparison: Comparison
    trials: Table
    updates: Sequence[Row]
    attempts: Sequence[Row]
    stretches: Sequence[Start]
    remarks: Sequence[AttemptEvent]
    interventions: Sequence[Entry]
    links: Sequence[Link]
    frozen: Frozen | None
    openings: Openings
    metrics: Sequence[Row]
    discretion: Discretion
    taken: TakenChoice | None


def read_dossier(study: str | Path, *, with_paths: bool = False) -> Dossier:
    """Returns what is on record of a study, also while it runs.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StudyConflict: See `agreed_settings`.
    """
    folder = run_folder(study)
    with reading(study) as store:
        settings = agreed_settings(store, folder)
        attempts = store.attempts()
        public = discretion(with_paths=with_paths, hosts=[row["host"] for row in attempts])
        found = _without_details(evidence(store, settings, folder=folder.path), public)
        return _read(store, folder, settings, found, attempts, public)


def _read(  # what was read before, part by part
    store: StudyStore,
    folder: StudyFolder,
    settings: Study,
    found: StudyEvidence,
    attempts: Sequence[Row],
    public: Discretion,
) -> Dossier:
    recorded, links = store.study(), store.chain.links()
    with reading_record("sweeper_chain"):
        openings = openings_in(links)
    columns = trial_columns(recorded.factor_key, is_text=recorded.factor_is_text)
    return Dossier(
        folder=folder,
        recorded=recorded,
        settings=settings,
        evidence=found,
        comparison=judge(found),
        trials=Table(rows=store.trials(), columns=columns),
        updates=store.updates(),
        attempts=attempts,
        stretches=store.stretches(),
        remarks=[note for note in store.notes() if isinstance(note.event.record, Notice)],
        interventions=store.journal().entries,
        links=links,
        frozen=store.frozen(),
        openings=openings,
        metrics=store.metrics(),
        discretion=public,
        taken=taken_by(links, settings, folder),
    )


def _without_details(found: StudyEvidence, public: Discretion) -> StudyEvidence:
    """Returns the evidence with details that may be passed on; no number changes by it."""
    repeat = None if found.repeat is None else _cell_without(found.repeat, public)
    cells = tuple(_cell_without(cell, public) for cell in found.cells)
    return replace(found, cells=cells, repeat=repeat)


def _cell_without(cell: CellEvidence, public: Discretion) -> CellEvidence:
    return replace(cell, detail=public.detail(cell.detail, cell.outcome))
