"""What a trial has read so far, and what the plan said it would read. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sweeper.records import EMPTY_DIGEST, Ledger, chain_digest
from sweeper.training.window import PlannedWindow, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the loop is to read, known before the first window.

    Attributes:
        windows: Planned windows, the largest possible number of updates.
        records: Records, an epoch's repetition counted again.
        input_tokens: Tokens, padding left out.
        target_tokens: The budget, met to the token.
        last_window_target_tokens: Target tokens of the last window, which may be short.
    """

    windows: int
    records: int
    input_tokens: int
    target_tokens: int
    last_window_target_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was really read in one window, counted from what the model was given.

    Attributes:
        target_tokens: Targets whose loss was computed, over all ranks.
        padding_tokens: Positions that were computed for nothing, over all ranks.
    """

    target_tokens: int = 0
    padding_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The ledger: realized counts after some window; the start is `Exposure()`.

    Attributes:
        windows: Windows read, whether or not they ended in an update.
        updates: Windows whose update ran.
        records: Records read, packed or not.
        input_tokens: Tokens read, padding left out.
        padding_tokens: Positions computed for nothing.
        target_tokens_read: Target tokens of all windows.
        target_tokens_applied: Target tokens of the windows whose update ran.
        record_digest: Rolling SHA-256 of the records read, hexadecimal.
        difference: The first window in which something else was read than planned, as a sentence.
    """

    windows: int = 0
    updates: int = 0
    records: int = 0
    input_tokens: int = 0
    padding_tokens: int = 0
    target_tokens_read: int = 0
    target_tokens_applied: int = 0
    record_digest: str = EMPTY_DIGEST.hex()
    difference: str | None = None

    def after(self, window: Window, read: Read, *, ran: bool) -> Exposure:
        """Returns the counts with one more window."""
        realized = PlannedWindow(
            records=len(window.documents),
            input_tokens=window.input_tokens,
            target_tokens=read.target_tokens,
            record_digest=chained(self.record_digest, window),
        )
        return Exposure(
            windows=self.windows + 1,
            updates=self.updates + int(ran),
            records=self.records + realized.records,
            input_tokens=self.input_tokens + realized.input_tokens,
            padding_tokens=self.padding_tokens + read.padding_tokens,
            target_tokens_read=self.target_tokens_read + realized.target_tokens,
            target_tokens_applied=self.target_tokens_applied + realized.target_tokens * int(ran),
            record_digest=realized.record_digest,
            difference=self.difference or _difference(self.windows + 1, window, realized),
        )

    def mismatch(self, planned: Planned) -> str | None:
        """Returns how the reading differs from the plan, as a sentence; None when it does not."""
        if self.difference is not None:
            return self.difference
        read = (self.windows, self.target_tokens_read)
        if read == (planned.windows, planned.target_tokens):
            return None
        first = min(self.windows, planned.windows) + 1
        return (
            f"Read {self.target_tokens_read} target tokens in {self.windows} windows; the plan"
            f" says {planned.target_tokens} in {planned.windows}, so window {first} is the first"
            " that differs."
        )

    def ledger(self, planned: Planned) -> Ledger:
        """Returns the comparison as a record."""
        return Ledger(
            planned={
                "windows": planned.windows,
                "records": planned.records,
                "input_tokens": planned.input_tokens,
                "target_tokens": planned.target_tokens,
            },
            realized={
                "windows": self.windows,
                "records": self.records,
                "input_tokens": self.input_tokens,
                "target_tokens": self.target_tokens_read,
                "target_tokens_applied": self.target_tokens_applied,
                "updates": self.updates,
                "skipped": self.windows - self.updates,
                "padding_tokens": self.padding_tokens,
            },
            difference=self.mismatch(planned),
        )


def chained(before: str, window: Window) -> str:
    """Returns the rolling digest, hexadecimal, once the window is read as well."""
    digest = bytes.fromhex(before)
    for example in window.examples:
        for document, targets in zip(example.documents, example.targets_by_document, strict=True):
            digest = chain_digest(digest, bytes.fromhex(document.digest), targets)
    return digest.hex()


def _difference(position: int, window: Window, realized: PlannedWindow) -> str | None:
    """Returns what of the window differs from its plan, as a sentence."""
    if window.index != position:
        return f"Window {position} is the first that differs: window {window.index} came instead."
    names = [field.name for field in fields(PlannedWindow)]
    found = [(name, getattr(realized, name), getattr(window.planned, name)) for name in names]
    parts = [f"{name} is {read}, planned {plan}" for name, read, plan in found if read != plan]
    return f"Window {position} is the first that differs: {'; '.join(parts)}." if parts else None
