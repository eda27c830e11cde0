"""Whose leases are over: owners on other hosts that are lost, unless they renew them yet.

Leases run by the database's clock. Once that was set, those of owners that live may look to be long
over, until they are renewed. So nobody is taken for lost before there was time for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sweeper.store.claims import Claim
from sweeper.store.store import StudyStore
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import Observer
from sweeper.sweep.stop_request import StopRequest
from sweeper.workers.liveness import is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How whoever is to be alone waits for others.

    Attributes:
        observer: Is told whom it waits for.
        stop: The user's wish not to wait any longer.
        clock: Monotonic seconds.
    """

    lease: LeaseTerms
    observer: Observer
    stop: StopRequest = field(default_factory=StopRequest)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def overdue_claims(store: StudyStore, lease: LeaseTerms) -> frozenset[Claim]:
    """Returns the claims of other hosts whose leases are over for long, whoever lives there.

    Raises:
        StoreError: The database cannot be used.
    """
    live = store.live_attempts(grace_seconds=lease.overdue_seconds)
    return frozenset(each.claim for each in live if each.overdue and _is_out_of_sight(each.claim))


def silent_claims(store: StudyStore, patience: Patience, *, on_server: bool) -> frozenset[Claim]:
    """Returns those of them whose leases are not renewed either, given the time for that.

    Without any it returns at once. None counts as silent once the user asked to stop.

    Args:
        on_server: Whether the database is on a server. An SQLite file belongs to one host, whose
            lock on the run folder the caller holds: whatever others had is left.

    Raises:
        StoreError: The database cannot be used.
    """
    lease = patience.lease
    silent = overdue_claims(store, lease)
    if not on_server:
        return silent
    if silent:
        hosts = ", ".join(sorted({claim.owner.host for claim in silent}))
        patience.observer.message(
            f"the leases of what runs on {hosts} are over; if it lives it renews them in the next "
            f"{lease.second_look_seconds:.0f} seconds"
        )
    until = patience.clock() + lease.second_look_seconds
    while silent and patience.clock() < until:
        if patience.stop.is_asked:
            return frozenset()
        patience.sleep(lease.look_seconds)
        silent &= overdue_claims(store, lease)
    return silent


def _is_out_of_sight(claim: Claim) -> bool:
    return is_alive(claim.owner.host, claim.owner.pid, claim.owner.started_at) is None
