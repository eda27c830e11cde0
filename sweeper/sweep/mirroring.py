"""Keeps the run folder in step with the record, so that a lost database can be made anew.

As long as there is a database it decides. What it has and the folder lacks, because somebody was
killed between the two or the disk was full, is added by the study's next coordinator.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator

from sweeper.errors import Fault, RunFolderError, StoreError, StudyConflict
from sweeper.records import Outcome, Reason
from sweeper.store.claims import Claim, Owner, Process
from sweeper.store.endings import Cost
from sweeper.store.reading import LateResult, Row
from sweeper.store.restoring import Entry, Journal, StudyState
from sweeper.store.store import StudyStore
from sweeper.study.chain_file import complete_chain_file
from sweeper.study.folder import StudyFolder
from sweeper.sweep.journal import JournalFile, complete
from sweeper.sweep.verdicts import Verdict, leave_verdict, now, readable_verdict
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.liveness import host_name

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def mirrored(store: StudyStore, folder: StudyFolder, *, max_resumes: int) -> Iterator[None]:
    """Brings the folder in step before the block, and after it, however it ends.

    Raises:
        StudyConflict: See `mirror`.
        RunFolderError: Likewise.
        StoreError: The database cannot be read, before the block.
    """
    mirror(store, folder, max_resumes=max_resumes)
    try:
        yield
    finally:
        try:
            mirror(store, folder, max_resumes=max_resumes)
        except StoreError as error:  # the next coordinator does it
            _log.warning("%s", error)


def mirror(store: StudyStore, folder: StudyFolder, *, max_resumes: int) -> None:
    """Writes into the run folder what the record has and the folder does not.

    A disk that takes nothing is no reason to stop: the next call does the rest.

    Args:
        max_resumes: What the study allows now; written into verdicts that are missing.

    Raises:
        StudyConflict: The folder knows of more than the record, which is an older copy, then.
        RunFolderError: The journal is damaged.
        StoreError: The database cannot be read.
    """
    for row in store.attempts():
        mirror_attempt(_attempt_folder(folder, row), row, max_resumes=max_resumes)
    for late in store.late_results():
        _mirror_late(store, folder, late)
    journal = store.journal()

    def missing(known: JournalFile) -> list[Entry | StudyState]:
        _refuse_older_record(journal, known, folder)
        return _new_lines(journal, known)

    try:
        complete(folder.journal, missing)
    except OSError as error:
        _log.warning("%s: %s", folder.journal, error)
    mirror_chain(store, folder)


def mirror_chain(store: StudyStore, folder: StudyFolder) -> None:
    """Adds the entries of the chain that its mirror lacks.

    A disk that takes nothing is no reason to stop: the next call does the rest.

    Raises:
        StudyConflict: The mirror says something that the chain does not.
        RunFolderError: It is damaged.
        StoreError: The database cannot be read.
    """
    try:
        complete_chain_file(folder.chain, store.chain.links)
    except OSError as error:
        _log.warning("%s: %s", folder.chain, error)


def follow_chain(store: StudyStore, folder: StudyFolder) -> None:
    """Does the same while trials run, whose end a damaged mirror must not keep from the record.

    Raises:
        StoreError: The database cannot be read.
    """
    try:
        mirror_chain(store, folder)
    except (StudyConflict, RunFolderError) as error:  # the next coordinator is refused for it
        _log.warning("%s", error)


def mirror_attempt(attempt: AttemptFolder, row: Row, *, max_resumes: int) -> None:
    """Writes the verdict of an attempt that has ended, if its folder holds none or another."""
    if row["outcome"] is None or _is_out_of_reach(attempt, row):
        return
    known = readable_verdict(attempt.verdict)
    recorded = _verdict_of(row, max_resumes=max_resumes)
    if known is None or not known.says(recorded):
        leave_verdict(attempt.verdict, recorded)


def _is_out_of_reach(attempt: AttemptFolder, row: Row) -> bool:
    """Whether another host has the attempt's folder on a disk of its own."""
    return row["host"] != host_name() and not attempt.path.exists()


def _attempt_folder(folder: StudyFolder, row: Row) -> AttemptFolder:
    return AttemptFolder(folder.path / str(row["folder"]))


def _claim_of(row: Row) -> Claim:
    """Returns the claim by which a row of `sweeper_attempts` came to be."""
    return Claim(
        cell=str(row["trial"]),
        arm=str(row["arm"]),
        seed=_integer(row["seed"]),
        attempt=_integer(row["attempt"]),
        fencing_number=_integer(row["fencing_number"]),
        owner=Owner(
            worker=str(row["worker"]),
            host=str(row["host"]),
            pid=_integer(row["pid"]),
            started_at=str(row["process_started_at"]),
        ),
        slot=str(row["slot"]),
        folder=str(row["folder"]),
    )


def _mirror_late(store: StudyStore, folder: StudyFolder, late: LateResult) -> None:
    row = store.attempts(late.cell)[late.attempt - 1]
    attempt = _attempt_folder(folder, row)
    file = attempt.late_verdict(late.outcome.reason)
    if readable_verdict(file) is None and not _is_out_of_reach(attempt, row):
        found = Verdict(claim=_claim_of(row), outcome=late.outcome, cost=late.cost, at=now())
        leave_verdict(file, found)


def _verdict_of(row: Row, *, max_resumes: int) -> Verdict:
    evidence = json.loads(str(row["evidence"]))
    return Verdict(
        claim=_claim_of(row),
        outcome=Outcome(
            reason=Reason(str(row["reason"])), detail=str(row["detail"]), evidence=evidence
        ),
        cost=Cost(
            wall_seconds=row["wall_seconds"],  # type: ignore[arg-type]  # the column's type
            peak_memory_bytes=row["peak_memory_bytes"],  # type: ignore[arg-type]  # likewise
            exit_status=row["exit_status"],  # type: ignore[arg-type]  # likewise
        ),
        max_resumes=max_resumes,
        supervisor=_process(row["supervisor_pid"], row["supervisor_started_at"]),
        child=_process(row["child_pid"], row["child_started_at"]),
        at=str(row["ended_at"]),
    )


def _new_lines(journal: Journal, known: JournalFile) -> list[Entry | StudyState]:
    lines: list[Entry | StudyState] = [*journal.entries[len(known.entries) :]]
    if journal.state != (known.state or StudyState(not_run={})):
        lines.append(journal.state)
    return lines


def _refuse_older_record(journal: Journal, known: JournalFile, folder: StudyFolder) -> None:
    if known.entries == journal.entries[: len(known.entries)]:
        return
    raise StudyConflict(
        Fault(
            what="the database does not know what the run folder's journal says",
            where=str(folder.journal),
            got=f"{len(journal.entries)} interventions in the database",
            expected=f"{len(known.entries)}, as in the journal",
            hint=f"It is an older copy: `sweeper rebuild {folder.path} --replace` makes it anew "
            "from the folder",
        )
    )


def _process(pid: object, started_at: object) -> Process | None:
    if pid is None or started_at is None:
        return None
    return Process(pid=_integer(pid), started_at=str(started_at))


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
