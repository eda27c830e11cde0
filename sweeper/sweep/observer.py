"""What somebody watching a running study is told; the command line's live view is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sweeper.records import Outcome, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the trial in one slot has come.

    Attributes:
        slot: The slot's name.
        cell: `arm/seed`.
        phase: What the trial is busy with; None before it said so.
        target_tokens_read: Target tokens read by this attempt.
        loss: Of the latest window, nats per target token.
        learning_rate: Of the latest window.
        seconds_left: Estimated from this attempt's windows so far; None before the second.
    """

    slot: str
    cell: str
    phase: Phase | None
    target_tokens_read: int
    budget_target_tokens: int
    loss: float | None
    learning_rate: float | None
    seconds_left: float | None


class Observer(Protocol):
    """Watches a study; its methods are called from the slots' threads, several at a time.

    They return soon and raise nothing: a view that fails must not end a trial.
    """

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """A slot starts an attempt at a cell."""

    def progress(self, progress: Progress) -> None:
        """A trial has come further, at most a few times a second."""

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:
        """An attempt has ended and is on record."""

    def message(self, text: str) -> None:
        """Something worth a line."""


class SilentObserver:
    """Watches without a word."""

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """Says nothing."""

    def progress(self, progress: Progress) -> None:
        """Says nothing."""

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:
        """Says nothing."""

    def message(self, text: str) -> None:
        """Says nothing."""
