"""Whether a recorded study's files are still those it was prepared from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

from sweeper.data.manifest import Manifest, changed_sources, file_sha256
from sweeper.data.request import PrepareRequest
from sweeper.errors import Fault, RunFolderError, StudyConflict
from sweeper.study.database_place import database_file
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import WAY_ON, Inputs, changed_inputs
from sweeper.study.loading import load_study
from sweeper.study.storage import SQLITE, database_url


def is_recorded(folder: StudyFolder) -> bool:
    """Tells whether a study has begun in the folder, so that its prepared data must stay."""
    known = (folder.database, folder.database_note, folder.recorded_study)
    return any(file.exists() for file in known)


def begun_on(folder: StudyFolder) -> str | None:
    """Returns the `run.storage` that the study in the folder has begun on; None before it has.

    Raises:
        StudyFileError: The recorded study file cannot be read.
        StudyConflict: Its database is on another host's disk.
    """
    if database_file(folder).exists():
        return SQLITE
    if not folder.recorded_study.exists():
        return None
    storage = load_study(folder.recorded_study).study.run.storage
    return None if storage == SQLITE else storage


def recorded_url(folder: StudyFolder, environ: Mapping[str, str]) -> str | None:
    """Returns the URL of the database that the study has begun on; None before it has.

    Raises:
        StudyFileError: The recorded study file cannot be read, or names a variable that isn't set.
    """
    storage = begun_on(folder)
    return None if storage is None else database_url(storage, folder, environ)


def lost_database(folder: StudyFolder) -> Fault | None:
    """Returns what to say of a folder with attempts that no database knows; None without any."""
    if not any(folder.trials.glob("*/attempts/*")):
        return None
    return Fault(
        what="the run folder holds attempts, but the database that knew them is gone",
        where=str(folder.path),
        hint=f"`sweeper rebuild {folder.path}` makes it anew from the folder; or put the database "
        "back, or start a study of its own with --as NEW-NAME",
    )


def recorded_manifest(request: PrepareRequest, folder: StudyFolder) -> Manifest:
    """Returns the manifest as it is, once the files it was made from are found unchanged.

    Raises:
        StudyConflict: One of them has changed or is another file, or the manifest is gone, or
            another version of sweeper wrote it.
    """
    if not folder.manifest.exists():
        raise StudyConflict(
            Fault(
                what="the prepared data of the recorded study are gone",
                where=str(folder.prepared),
                hint="Put them back: making them anew would read the test split again. `sweeper "
                "run --replace` starts over while no trial is completed or stopped, "
                "`--as NEW-NAME` always",
            )
        )
    manifest = _readable_manifest(folder)
    before = PrepareRequest.read(folder.prepared / "request.json")
    inputs = Inputs.model_validate_json(folder.inputs.read_bytes())
    faults = (
        *_changed_records(before, request, manifest),
        *_changed_test(before, request),
        *changed_inputs(inputs, request, manifest),
    )
    if faults:
        raise StudyConflict(*faults)
    return manifest


def _readable_manifest(folder: StudyFolder) -> Manifest:
    try:
        return Manifest.read(folder.prepared)
    except RunFolderError as error:
        hint = (
            "Go on with the version of sweeper that the study was begun with, or start over: "
            "`sweeper run --replace` while no trial is completed or stopped, `--as NEW-NAME` always"
        )
        faults = (dataclasses.replace(fault, hint=hint) for fault in error.faults)
        raise StudyConflict(*faults) from error


def _changed_records(
    before: PrepareRequest, request: PrepareRequest, manifest: Manifest
) -> Iterator[Fault]:
    """Yields what differs in the files of the records; a file may have moved, unchanged.

    A test file is not touched, wherever it is said to be: its digest is checked when it is
    opened.
    """
    moved = {
        part: path
        for part in ("train", "validation", "retention", "source")
        if (path := _path(request, part)) is not None and path != _path(before, part)
    }
    left = {_path(before, part) for part in moved}
    yield from (fault for fault in changed_sources(manifest) if fault.where not in left)
    for part, path in moved.items():
        split = manifest.splits.get("train" if part == "source" else part)
        if split is None:
            continue  # the options differ as well: the fingerprint says so
        if split.holds_test_records:
            what = "the file holds test records and cannot be looked at in another place"
            yield Fault(what=what, where=path, expected=split.source, hint=WAY_ON)
        elif not Path(path).is_file() or file_sha256(Path(path)) != split.file_sha256:
            what = "another file than the study was prepared from"
            yield Fault(what=what, where=path, expected=split.source, hint=WAY_ON)


def _changed_test(before: PrepareRequest, request: PrepareRequest) -> Iterator[Fault]:
    """Yields a fault when a test split was added, taken away, or said to be another one."""
    old, new = before.data.test, request.data.test
    if (old and (old.sha256 or "a file")) != (new and (new.sha256 or "a file")):
        what = "the test split was settled when the study was prepared"
        yield Fault(what=what, where="data.test", hint=WAY_ON)


def _path(request: PrepareRequest, part: str) -> str | None:
    source = getattr(request.data, part)
    path: str | None = None if source is None else source.path
    return path
