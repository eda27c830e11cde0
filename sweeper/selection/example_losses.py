"""The loss of each held-out record at the declared checkpoint, trial by trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleLosses:
    """The validation split, record by record.

    Attributes:
        groups: The group that each record belongs to; a record of no group is one of its own.
        target_tokens: Of each record.
        loss_sums: Summed token losses of each record in nats, by (arm, seed).
        unread: Trials whose losses are on record by a digest, and in no file of that digest.
    """

    groups: tuple[str, ...]
    target_tokens: tuple[int, ...]
    loss_sums: Mapping[tuple[str, int], tuple[float, ...]]
    unread: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        assert len(self.groups) == len(self.target_tokens)
        assert all(len(sums) == len(self.groups) for sums in self.loss_sums.values())
