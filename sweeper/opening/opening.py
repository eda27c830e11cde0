"""Opening the test split, top to bottom: one shot, its intent on record before a record is read.

    plan      the frozen choice, its weights by their digests, no opening before
    declare   `test.intent`, which is made only once, and the chain's entry test_intent
    evaluate  a child process where trials run: validation again, then the test split
    record    the chain's entry test_result

A crash between intent and result leaves an intent without one: the same frozen choice may be opened
once more, which is noted, and no other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from sweeper.errors import Fault, RunFolderError, StudyBusy, StudyConflict
from sweeper.files import bring_to_disk, write_whole
from sweeper.opening.evaluating import evaluate
from sweeper.opening.folder import EvaluationFolder, OpeningFolder
from sweeper.opening.planning import (
    FROZEN,
    OpeningOrder,
    OpeningPlan,
    begun_for_another,
    plan_opening,
)
from sweeper.opening.request import OpeningReport
from sweeper.selection.chain import EntryKind
from sweeper.selection.opened import Opened, OpenedLoss, OpenedOverlap, openings_in
from sweeper.store.store import StudyStore
from sweeper.study.chain_file import complete_chain_file
from sweeper.study.child import Progress
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.recorded import recorded_url

_log = logging.getLogger(__name__)


def planned_opening(study_file: StudyFile, folder: StudyFolder, order: OpeningOrder) -> OpeningPlan:
    """Returns what `open_test` would evaluate; changes nothing.

    Raises:
        UserError: The test split may not be opened; see `planning.plan_opening`.
        StoreError: The database cannot be read.
    """
    url = recorded_url(folder, os.environ)
    assert url is not None, "the caller has found it on record"
    with StudyStore.read(url) as store:
        return plan_opening(store, study_file, folder, order)


def open_test(
    study_file: StudyFile,
    folder: StudyFolder,
    order: OpeningOrder,
    *,
    progress: Progress = lambda _: None,
) -> Opened:
    """Opens the test split and returns what it brought, which is then on record.

    Args:
        progress: Is told what the child reports on the way.

    Raises:
        UserError: The test split may not be opened, or what is evaluated is not what was frozen.
        StudyBusy: It is being opened right now.
        SweeperError: The evaluation failed in another way; the intent stays on record.
    """
    url = recorded_url(folder, os.environ)
    assert url is not None, "the caller has found it on record"
    opening = OpeningFolder.of(folder)
    with _alone(opening), StudyStore.open(url) as store:
        plan = plan_opening(store, study_file, folder, order)
        _mirror(store, folder)
        _declare(store, plan, opening)
        _mirror(store, folder)
        evaluation = _new_evaluation(opening)
        report = evaluate(store, plan.request, evaluation, study_file, folder, progress=progress)
        opened = _opened(plan, report, evaluation, folder)
        store.chain.append(EntryKind.TEST_RESULT, opened.to_entry())
        _mirror(store, folder)
    return opened


@contextlib.contextmanager
def _alone(opening: OpeningFolder) -> Iterator[None]:
    """Holds the opening's lock."""
    with _as_run_folder_error(opening.path):
        opening.path.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(opening.lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _take(lock, opening)
        yield
    finally:
        os.close(lock)


def _take(lock: int, opening: OpeningFolder) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        what = "the test split is being opened by another process"
        raise StudyBusy(Fault(what=what, where=str(opening.lock))) from None


def _declare(store: StudyStore, plan: OpeningPlan, opening: OpeningFolder) -> None:
    """Puts the intent on record: the file first, which cannot be made twice, then the chain.

    Raises:
        StudyConflict: The file says that an opening was begun for another choice.
    """
    intent = {
        FROZEN: plan.digest,
        "test": plan.sealed,
        "checkpoints": [checkpoint.name for checkpoint in plan.request.checkpoints],
    }
    known = _make_intent(opening.intent, intent)
    if known is not None and known != plan.digest:
        raise StudyConflict(begun_for_another(str(opening.intent)))
    begun = plan.openings.unfinished
    if begun is not None or (known is not None and not plan.openings.results):
        aborted = None if begun is None else begun.number
        store.chain.append(EntryKind.NOTE, {"test": "aborted, tried again", "intent": aborted})
    if plan.reason is None:
        store.chain.append(EntryKind.TEST_INTENT, intent)
    else:
        repeat = {"reason": plan.reason, "opening": len(plan.openings.results) + 1}
        store.chain.append(EntryKind.TEST_REPEAT, {**intent, **repeat})
    frozen = openings_in(store.chain.links()).frozen
    if frozen is None or frozen.digest != plan.digest:
        what = "another choice was frozen while the test split was about to be opened"
        raise StudyConflict(Fault(what=what, where="chain"))


def _mirror(store: StudyStore, folder: StudyFolder) -> None:
    """Brings the run folder's copy of the chain in step.

    Raises:
        StudyConflict: It says something that the chain does not.
        RunFolderError: It is damaged.
    """
    try:
        complete_chain_file(folder.chain, store.chain.links)
    except OSError as error:  # the record has it; the next who writes the copy adds what it lacks
        _log.warning("%s: %s", folder.chain, error)


def _make_intent(file: Path, intent: Mapping[str, object]) -> str | None:
    """Makes the file; returns the digest of the choice that it is for if it was there before."""
    text = json.dumps({**intent, "host": socket.gethostname(), "pid": os.getpid()}, indent=1)
    with _as_run_folder_error(file):
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            known = _known_intent(file)
            if known is None:
                write_whole(file, text)
            return known
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        bring_to_disk(file.parent)
    return None


def _known_intent(file: Path) -> str | None:
    """Returns the digest in it; None when whoever made it died before it was written.

    No record was read then: the chain has the intent, and it binds, only after the file is whole.
    """
    try:
        return str(json.loads(file.read_bytes())[FROZEN])
    except (ValueError, KeyError, TypeError):
        return None


def _new_evaluation(opening: OpeningFolder) -> EvaluationFolder:
    with _as_run_folder_error(opening.path):
        return opening.new_evaluation()


def _opened(
    plan: OpeningPlan, report: OpeningReport, evaluation: EvaluationFolder, folder: StudyFolder
) -> Opened:
    """Returns the report as the chain keeps it.

    Raises:
        StudyConflict: The child read other records than those that are sealed.
    """
    assert report.records_digest == plan.sealed, "the child has held the records against the seal"
    within = evaluation.path.relative_to(folder.path)
    pairs = zip(plan.request.checkpoints, report.losses, strict=True)
    return Opened(
        opening=len(plan.openings.results) + 1,
        frozen=plan.digest,
        chosen=plan.frozen.arm,
        records_digest=report.records_digest,
        records_read=report.records_read,
        records=report.records,
        target_tokens=report.target_tokens,
        set_digest=report.set_digest,
        overlaps=tuple(OpenedOverlap(**each.model_dump()) for each in report.overlaps),
        losses=tuple(
            OpenedLoss(
                role=checkpoint.role,
                arm=checkpoint.arm,
                seed=checkpoint.seed,
                validation_loss=checkpoint.validation_loss,
                test_loss=loss.test_loss,
                per_record_path=(within / loss.per_record_path).as_posix(),
                per_record_sha256=loss.per_record_sha256,
            )
            for checkpoint, loss in pairs
        ),
        environment=report.environment,
        reason=plan.reason,
    )


@contextlib.contextmanager
def _as_run_folder_error(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the run folder cannot be written",
                where=str(error.filename or place),
                got=error.strerror,
                hint="Make it writable; nothing was opened",
            )
        ) from error
