"""How long whoever runs a trial may be silent, before others take the trial for lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.store.claims import LEASE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The lengths that follow from a lease's. All are told by the database's clock, or monotonic.

    Attributes:
        seconds: How long a claim holds that is not renewed. Whoever could not renew one for as long
            ends its trial, resumable.
        kill_grace_seconds: What an owner on another host has to do that, besides another lease.
    """

    seconds: float = LEASE_SECONDS
    kill_grace_seconds: float = 60.0

    @property
    def renew_seconds(self) -> float:
        """Between two renewals."""
        return self.seconds / 5

    @property
    def retry_seconds(self) -> float:
        """Between two tries while the database cannot be used."""
        return self.seconds / 30

    @property
    def look_seconds(self) -> float:
        """Between two looks at what others run."""
        return self.seconds / 60

    @property
    def overdue_seconds(self) -> float:
        """How long a lease has to be over before its attempt is taken over from another host."""
        return self.seconds + self.kill_grace_seconds

    @property
    def dead_seconds(self) -> float:
        """For which an owner has to be seen as dead before its attempt is ended."""
        return 2 * self.retry_seconds

    @property
    def second_look_seconds(self) -> float:
        """For which a lease has to be seen as over, without a break, before its attempt is ended.

        An owner that lives renews it in that time, whether the database was away or its clock set.
        """
        return self.renew_seconds + 2 * self.retry_seconds
