"""What other coordinators left unfinished: ended on record, from what the attempts wrote.

An attempt whose owner is dead may have come to its end all the same. Its folder says so, and
then its result counts; only one that did not is on record as lost, and is gone on from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from sweeper.errors import EventsDamaged, Fault, StudyBusy
from sweeper.records import Outcome
from sweeper.store.claims import Claim, Owner
from sweeper.store.recovery import LiveAttempt
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.sweep.finishing import Terms, finish_attempt
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import Observer
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import aftermath, recorded_end
from sweeper.workers.liveness import is_alive, is_of_this_kernel
from sweeper.workers.tail import EventTail

WAY_IN = "`sweeper worker STUDY` joins those who run it, and takes up what they leave"


def adopt_leftovers(  # noqa: PLR0913  # what is left, whose it may be, who is told
    store: StudyStore,
    folder: StudyFolder,
    owner: Owner,
    *,
    terms: Terms,
    observer: Observer,
    locked: bool = False,
    lease: LeaseTerms | None = None,
    silent: Collection[Claim] = (),
) -> tuple[LiveAttempt, ...]:
    """Ends every attempt on record whose owner is gone; no process of it is left then.

    Jobs of an engine outlive their coordinator: they are left alone and returned, for the run of
    the study to take up, see `engine_jobs`.

    Args:
        owner: This coordinator, which has claimed nothing yet: what is recorded as its own is a
            leftover too.
        locked: Whether every coordinator of the study holds the run folder's lock while it lives:
            then none is left under this kernel, whatever container it was in.
        silent: Claims of other hosts that count as lost, see `silence`.

    Raises:
        StudyBusy: An attempt's owner on this host lives, although the lock was free.
        StoreError: The database cannot be used.
    """
    lease, jobs = lease or LeaseTerms(), []
    for live in store.live_attempts():
        claim = live.claim
        is_gone = _is_gone(claim, owner, locked=locked)
        is_silent = claim in silent
        if (is_gone or is_silent) and has_job(AttemptFolder(folder.path / claim.folder)):
            jobs.append(live)
        elif is_gone:
            observer.message(told(claim, end_leftover(store, folder, claim, terms=terms)))
        elif is_silent and take_over(store, folder, live, terms=terms, lease=lease):
            observer.message(told_overdue(claim))
    return tuple(jobs)


def has_job(attempt: AttemptFolder) -> bool:
    """Says whether the attempt was handed to an engine, as far as this host sees its folder."""
    return attempt.order.exists()


def _is_gone(claim: Claim, owner: Owner, *, locked: bool) -> bool:
    """Says whether nobody holds the claim any more; what this process is said to hold is left."""
    return is_same_process(claim.owner, owner) or not _lives(claim, locked=locked)


def _lives(claim: Claim, *, locked: bool) -> bool:
    """Says whether the claim's owner may live, which it only can on another host.

    Raises:
        StudyBusy: It does, on this one.
    """
    alive = is_alive(claim.owner.host, claim.owner.pid, claim.owner.started_at)
    if alive:
        raise StudyBusy(_busy(claim, "Wait for it, or end it with Ctrl-C"))
    return alive is None and not (locked and is_of_this_kernel(claim.owner.started_at))


def left_behind(
    store: StudyStore, owner: Owner, *, locked: bool, silent: Collection[Claim]
) -> tuple[LiveAttempt, ...]:
    """Returns what `adopt_leftovers` would end or return; nothing is changed.

    Raises:
        StudyBusy: Likewise.
        StoreError: The database cannot be used.
    """
    return tuple(
        live
        for live in store.live_attempts()
        if _is_gone(live.claim, owner, locked=locked) or live.claim in silent
    )


def refuse_others(
    store: StudyStore,
    *,
    on_server: bool,
    lease: LeaseTerms | None = None,
    besides: Collection[LiveAttempt] = (),
) -> None:
    """Accepts that nobody else runs the study, for a command that has to be alone.

    Leftovers were adopted before; what is left is another host's.

    Args:
        besides: Attempts without a living owner that still run.
        on_server: Whether its database is on a server, so that others may run it too.

    Raises:
        StudyBusy: Another host's coordinator may be running a trial.
        StoreError: The database cannot be used.
    """
    lease = lease or LeaseTerms()
    left = {live.claim for live in besides}
    for live in store.live_attempts():
        if live.claim in left:
            continue
        until = f"{live.lease_expires_at:%H:%M} UTC and {lease.overdue_seconds / 60:.0f} minutes"
        wait = f"Wait for it. Should its host be gone: until {until}, when it counts as lost"
        if on_server:
            raise StudyBusy(_busy(live.claim, f"{WAY_IN}. {wait}"))
        more = "With its record on PostgreSQL (run.storage) several hosts can share a study"
        raise StudyBusy(_busy(live.claim, f"{wait}. {more}: --as NEW-NAME starts it anew there"))


def end_leftover(store: StudyStore, folder: StudyFolder, claim: Claim, *, terms: Terms) -> Outcome:
    """Ends an attempt whose owner, on this host, is gone; its processes with it.

    Raises:
        StoreError: The database cannot be used.
    """
    attempt = AttemptFolder(folder.path / claim.folder)
    return finish_attempt(store, claim, attempt, aftermath(attempt), terms=terms)


def take_over(
    store: StudyStore, folder: StudyFolder, live: LiveAttempt, *, terms: Terms, lease: LeaseTerms
) -> bool:
    """Ends an attempt of another host whose lease is long over; False if it was renewed meanwhile.

    Where this host sees its folder, what the attempt has reported counts, and so does its end.

    Raises:
        StoreError: The database cannot be used.
    """
    attempt = AttemptFolder(folder.path / live.claim.folder)
    if attempt.spec.exists() and (supervision := recorded_end(attempt)) is not None:
        finish_attempt(store, live.claim, attempt, supervision, terms=terms)
        return True
    _take_in(store, live.claim, attempt)
    return store.lose_overdue(
        live, grace_seconds=lease.overdue_seconds, max_resumes=terms.max_resumes
    )


def _take_in(store: StudyStore, claim: Claim, attempt: AttemptFolder) -> None:
    """Stores what the attempt has reported, as far as this host can read it."""
    tail = EventTail(attempt.events)
    with contextlib.suppress(EventsDamaged):
        while fresh := tail.read():
            store.ingest(claim, fresh)


def is_same_process(owner: Owner, other: Owner) -> bool:
    """Says whether both are one coordinator process."""
    return (owner.host, owner.pid, owner.started_at) == (other.host, other.pid, other.started_at)


def told(claim: Claim, outcome: Outcome) -> str:
    """Returns the sentence for an attempt that was ended in its dead owner's place."""
    return (
        f"{claim.cell}: attempt {claim.attempt}, left by process {claim.owner.pid}, "
        f"ended as {outcome.kind} ({outcome.reason})"
    )


def told_overdue(claim: Claim) -> str:
    """Returns the sentence for an attempt that was taken over from another host."""
    return f"{claim.cell}: taken over from {claim.owner.host}, overdue"


def _busy(claim: Claim, hint: str) -> Fault:
    return Fault(
        what=f"trial {claim.cell} is being run by another coordinator",
        got=f"process {claim.owner.pid} on {claim.owner.host}",
        hint=hint,
    )
