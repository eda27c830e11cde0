"""Attaches a user's own metrics to the trials of a study: on record, shown, never selected on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sweeper.errors import Fault, StudyConflict
from sweeper.store.metrics import Attachment
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.recorded import recorded_url
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.metric_file import MetricFile, Planned, read_metrics
from sweeper.sweep.mirroring import mirrored


def attach_metrics(folder: StudyFolder, file: Path, *, replace: bool) -> Attachment:
    """Attaches all that the file holds, or nothing; the same file again changes nothing.

    Args:
        folder: Of a study that has begun.
        replace: Whether a metric may get another value than the one on record, which is kept in
            the list of interventions.

    Raises:
        DataError: The file has faults; all are named.
        StudyConflict: A metric has another value, and is not to be replaced; all are named.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    url = recorded_url(folder, os.environ)
    assert url is not None, "the caller has found it on record"
    with only_coordinator(folder), StudyStore.open(url) as store:
        found = read_metrics(file, _planned(store))
        max_resumes = load_study(folder.recorded_study).study.run.max_resumes
        with mirrored(store, folder, max_resumes=max_resumes):
            attached = store.attach(found.by_place, found.source, replace=replace)
    if not attached.is_done:
        raise StudyConflict(*_conflicts(found, attached))
    return attached


def _planned(store: StudyStore) -> Planned:
    return Planned(
        trials={(cell.arm, cell.seed): cell.cell for cell in store.cells()},
        taken=frozenset(name for row in store.trials()[:1] for name in row),
    )


def _conflicts(found: MetricFile, attached: Attachment) -> Iterator[Fault]:
    for place, value in attached.replaced.items():
        trial, name = place
        yield Fault(
            what=f"{name} of {trial} has another value on record",
            where=found.places[place],
            got=repr(found.by_place[place]),
            expected=repr(value),
            hint="`sweeper attach ... --replace` puts the new one there, and keeps the old one on "
            "record",
        )
