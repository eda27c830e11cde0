"""What an earlier coordinator left unfinished: ended on record, from what the attempts wrote.

An attempt whose owner is dead may have come to its end all the same. Its folder says so, and
then its result counts; only one that did not is on record as lost, and is gone on from.
"""

from __future__ import annotations

from sweeper.errors import Fault, StudyBusy
from sweeper.records import Outcome
from sweeper.store.claims import LEASE_SECONDS, Claim, Owner
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.sweep.finishing import Terms, finish_attempt
from sweeper.sweep.observer import Observer
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import aftermath
from sweeper.workers.liveness import is_alive

KILL_GRACE_SECONDS = 60.0
"""What an owner on another host is given, after its lease, to end its trials."""


def adopt_leftovers(
    store: StudyStore, folder: StudyFolder, owner: Owner, *, terms: Terms, observer: Observer
) -> None:
    """Ends every attempt on record whose owner is gone; no process of it is left then.

    Args:
        owner: This coordinator, which has claimed nothing yet: what is recorded as its own is a
            leftover too.

    Raises:
        StudyBusy: An attempt's owner on this host lives, although the lock was free.
        StoreError: The database cannot be used.
    """
    for live in store.live_attempts():
        if _is_gone(live.claim, owner):
            attempt = AttemptFolder(folder.path / live.claim.folder)
            outcome = finish_attempt(store, live.claim, attempt, aftermath(attempt), terms=terms)
            observer.message(_told(live.claim, outcome))
    for live in store.lose_overdue(
        grace_seconds=LEASE_SECONDS + KILL_GRACE_SECONDS, max_resumes=terms.max_resumes
    ):
        observer.message(f"{live.claim.cell}: taken over from {live.claim.owner.host}, overdue")


def _is_gone(claim: Claim, owner: Owner) -> bool:
    """Says whether the claim's owner is proved dead; not so when it is another host's."""
    holder = claim.owner
    if (holder.host, holder.pid, holder.started_at) == (owner.host, owner.pid, owner.started_at):
        return True
    alive = is_alive(holder.host, holder.pid, float(holder.started_at))
    if alive:
        raise StudyBusy(
            Fault(
                what=f"trial {claim.cell} is being run by another coordinator",
                got=f"process {holder.pid} on {holder.host}",
                hint="Wait for it, or end it with Ctrl-C",
            )
        )
    return alive is False


def _told(claim: Claim, outcome: Outcome) -> str:
    return (
        f"{claim.cell}: attempt {claim.attempt}, left by process {claim.owner.pid}, "
        f"ended as {outcome.kind} ({outcome.reason})"
    )
