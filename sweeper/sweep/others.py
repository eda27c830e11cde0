"""The study's other coordinators, on other hosts: what they run, and what of it they have left.

Only a study on a database server has any. This one looks at the record now and then, for as long as
one of its slots has nothing to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sweeper.store.claims import Claim, Owner
from sweeper.store.recovery import LiveAttempt
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.sweep.adopting import (
    end_leftover,
    has_job,
    is_same_process,
    take_over,
    told,
    told_overdue,
)
from sweeper.sweep.finishing import Terms
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import Observer
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.liveness import is_alive

_Key = tuple[str, int]
"""Cell and attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The record that coordinators share, and this one among them."""

    store: StudyStore
    folder: StudyFolder
    owner: Owner
    terms: Terms
    lease: LeaseTerms
    observer: Observer


class Others:
    """Shared by the slots' threads; every method may be called from any of them.

    Args:
        shared: None: there are no others, as with SQLite.
        clock: Monotonic seconds.
    """

    def __init__(
        self, shared: Shared | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._looking = threading.Lock()
        self._claiming = threading.Lock()
        self._held: set[_Key] = set()
        self._suspects: dict[_Key, float] = {}
        self._running: tuple[Claim, ...] = ()
        self._look_at = 0.0
        self._told: frozenset[str] = frozenset()

    @property
    def may_exist(self) -> bool:
        """Whether the study can have other coordinators at all."""
        return self._shared is not None

    def hold(self, claim: Callable[[], Claim | None]) -> Claim | None:
        """Claims, and takes note that a slot of this process has what was claimed.

        Raises:
            StoreError: From the claim. If it took effect all the same, and nobody asks again, it
                will be found as one that no slot has.
        """
        with self._claiming:
            claimed = claim()
            if claimed is not None:
                self._held.add(_key(claimed))
            return claimed

    def let_go(self, claim: Claim) -> None:
        """Takes note that no slot of this process has the attempt any more."""
        with self._claiming:
            self._held.discard(_key(claim))

    def look(self) -> None:
        """Ends what others have left, if it is time to look; some other thread may be at it.

        Raises:
            StoreError: The database cannot be used.
        """
        if self._looking.acquire(blocking=False):
            try:
                if self._clock() >= self._look_at:
                    self._look()
            finally:
                self._looking.release()

    def running(self) -> tuple[Claim, ...]:
        """Returns what other coordinators are running now, and may leave.

        Raises:
            StoreError: The database cannot be used.
        """
        with self._looking:
            self._look()
            return self._running

    def tell_waiting(self, claims: Iterable[Claim]) -> None:
        """Says that a slot waits for these, once for each host."""
        if self._shared is None:
            return
        hosts = frozenset(claim.owner.host for claim in claims)
        with self._claiming:
            news, self._told = hosts - self._told, self._told | hosts
        if news:
            names = ", ".join(sorted(news))
            self._shared.observer.message(
                f"nothing to start now: waiting for what runs on {names}, to take it up if it is "
                "lost there"
            )

    def _look(self) -> None:
        if self._shared is None:
            return
        suspects, self._suspects = self._suspects, {}  # after an error they are suspected anew
        lease = self._shared.lease
        seen = self._shared.store.live_attempts(grace_seconds=lease.overdue_seconds)
        with self._claiming:  # read after the attempts: whatever was claimed before is among them
            held = frozenset(self._held)
        now, running = self._clock(), []
        still: dict[_Key, float] = {}
        for live in seen:
            if (key := _key(live.claim)) in held:
                continue
            if (patience_seconds := self._lost_after_seconds(live)) is not None:
                still[key] = suspects.get(key, now)
                if now - still[key] >= patience_seconds:
                    self._end(live)
                    continue
            running.append(live.claim)
        self._suspects, self._running = still, tuple(running)
        self._look_at = self._clock() + lease.look_seconds

    def _lost_after_seconds(self, live: LiveAttempt) -> float | None:
        """Returns for how long it has to look as if nobody ran the attempt; None: somebody does."""
        assert self._shared is not None
        owner, lease = live.claim.owner, self._shared.lease
        if has_job(AttemptFolder(self._shared.folder.path / live.claim.folder)):
            return None  # it may run on without an owner; the run of the study takes it up
        if is_same_process(owner, self._shared.owner):
            return lease.dead_seconds  # no slot has it
        alive = is_alive(owner.host, owner.pid, owner.started_at)
        if alive is None and live.overdue:
            return lease.second_look_seconds
        return lease.dead_seconds if alive is False else None

    def _end(self, live: LiveAttempt) -> None:
        assert self._shared is not None
        shared, claim, owner = self._shared, live.claim, live.claim.owner
        is_ours = is_same_process(owner, shared.owner)
        if is_ours or is_alive(owner.host, owner.pid, owner.started_at) is False:
            outcome = end_leftover(shared.store, shared.folder, claim, terms=shared.terms)
            shared.observer.message(told(claim, outcome))
        elif take_over(shared.store, shared.folder, live, terms=shared.terms, lease=shared.lease):
            shared.observer.message(told_overdue(claim))


def _key(claim: Claim) -> _Key:
    return claim.cell, claim.attempt
