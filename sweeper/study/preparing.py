"""Makes `prepared/` by child processes, or keeps it: it is made once and then has authority.

Before the study is on record, another request or a changed file means preparing anew. After
that nothing is overwritten: what has changed is a conflict, found here where it lies in a file
and by the fingerprint where it lies in the study's options.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from sweeper.data.manifest import Manifest, changed_sources
from sweeper.data.request import PrepareRequest
from sweeper.errors import Fault, RunFolderError
from sweeper.files import write_whole
from sweeper.study.child import ChildCall, Progress, run_child
from sweeper.study.fit import check_fit
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import Inputs, changed_inputs, stamp
from sweeper.study.loading import StudyFile
from sweeper.study.places import prepare_request, resolved_model
from sweeper.study.recorded import is_recorded, recorded_manifest
from sweeper.study.schema import Study
from sweeper.study.storage import variables
from sweeper.training.report import InspectionRequest, ModelReport


def prepare(
    study_file: StudyFile, folder: StudyFolder, *, progress: Progress = lambda _: None
) -> Manifest:
    """Returns the manifest of the study's prepared data, which are made when they are missing.

    Args:
        progress: Is told what the child processes report on the way.

    Raises:
        DataError: A data file, a record or a split is not usable.
        ModelError: The model, its tokenizer or its adapter's targets are not usable.
        RunFolderError: The run folder cannot be written.
        StudyConflict: A file that a recorded study was prepared from has changed, or its prepared
            data are gone.
    """
    study, base = study_file.study, study_file.path.parent
    request = prepare_request(study, base)
    if is_recorded(folder):
        return recorded_manifest(request, folder)
    hidden = variables(study.run.storage)
    with _locked(folder) as lock:
        if is_recorded(folder):  # while this process waited for the lock
            return recorded_manifest(request, folder)
        if not _is_current(request, folder):
            _prepare_anew(request, folder, lock=lock, progress=progress, hidden=hidden)
        manifest = Manifest.read(folder.prepared)
        inspection = _inspection(study, base, manifest)
        _inspect(inspection, folder, lock=lock, progress=progress, hidden=hidden)
    check_fit(study, manifest, ModelReport.read(folder.model_report))
    return manifest


def _is_current(request: PrepareRequest, folder: StudyFolder) -> bool:
    try:
        manifest = Manifest.read(folder.prepared)
        inputs = Inputs.model_validate_json(folder.inputs.read_bytes())
    except (RunFolderError, OSError, ValueError):
        return False
    return (
        manifest.request_digest == request.digest()
        and not changed_sources(manifest)
        and not any(changed_inputs(inputs, request, manifest))
    )


def _prepare_anew(
    request: PrepareRequest,
    folder: StudyFolder,
    *,
    lock: int,
    progress: Progress,
    hidden: Collection[str],
) -> None:
    """Lets the child write beside the old data, then puts the new in their place.

    Hosts that share the folder on a file system without locks between them may both do this: each
    has names of its own until the last step.
    """
    made, discarded = folder.of_this_host("prepared.new"), folder.of_this_host("prepared.old")
    asked = folder.of_this_host("prepare.json")
    with _as_run_folder_error(folder):
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(discarded, ignore_errors=True)
        folder.prepare_log.unlink(missing_ok=True)
        asked.write_text(request.to_json(), encoding="utf-8")
        inputs = stamp(request)
    run_child(
        ChildCall(
            module="sweeper.data",
            arguments=(str(asked), str(made)),
            purpose="preparing the data",
            log=folder.prepare_log,
            kept_open=(lock,),
            hidden=hidden,
        ),
        progress,
    )
    with _as_run_folder_error(folder):
        write_whole(made / folder.inputs.name, inputs.model_dump_json(indent=1))
        if not _is_current(request, folder):  # as it is when another host was faster
            if folder.prepared.exists():
                folder.prepared.rename(discarded)
            made.rename(folder.prepared)
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(discarded, ignore_errors=True)
        asked.unlink()


def _inspection(study: Study, base: Path, manifest: Manifest) -> InspectionRequest:
    model = resolved_model(study, base, commit=manifest.model_commit)
    packed = study.data.packing is not None
    return InspectionRequest(model=model, tune=study.tune, lora=study.adapter, is_packed=packed)


def _inspect(
    request: InspectionRequest,
    folder: StudyFolder,
    *,
    lock: int,
    progress: Progress,
    hidden: Collection[str],
) -> None:
    """Has the model's shape looked at, unless the same was asked and answered before."""
    text = request.model_dump_json(indent=1)
    answered = folder.inspection.exists() and folder.model_report.exists()
    if answered and folder.inspection.read_text(encoding="utf-8") == text:
        return
    asked = folder.of_this_host("inspect.json")
    with _as_run_folder_error(folder):
        folder.inspection.unlink(missing_ok=True)
        asked.write_text(text, encoding="utf-8")
    run_child(
        ChildCall(
            module="sweeper.training",
            arguments=(str(asked), str(folder.model_report)),
            purpose="looking at the model",
            log=folder.prepare_log,
            kept_open=(lock,),
            hidden=hidden,
        ),
        progress,
    )
    with _as_run_folder_error(folder):
        write_whole(folder.inspection, text)
        asked.unlink()


@contextlib.contextmanager
def _locked(folder: StudyFolder) -> Iterator[int]:
    """Holds the folder's lock: one preparation at a time.

    The children inherit the descriptor, so that one which outlives this process still holds it.
    """
    with _as_run_folder_error(folder):
        folder.make()
        lock = os.open(folder.prepare_lock, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        with _as_run_folder_error(folder):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


@contextlib.contextmanager
def _as_run_folder_error(folder: StudyFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the run folder cannot be written",
                where=str(error.filename or folder.path),
                got=error.strerror,
                hint="Make it writable, or move the study file to a folder that is.",
            )
        ) from error
