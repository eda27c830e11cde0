"""What a trial has read so far, and what the plan said it would read. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweeper.training.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the loop is to read, known before the first window.

    Attributes:
        windows: Planned windows, the largest possible number of updates.
        target_tokens: The budget, met to the token.
        last_window_target_tokens: Target tokens of the last window, which may be short.
    """

    windows: int
    target_tokens: int
    last_window_target_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Realized counts after some window; the start is `Exposure()`.

    Attributes:
        windows: Windows read, whether or not they ended in an update.
        updates: Windows whose update ran.
        target_tokens_read: Target tokens of all windows.
        target_tokens_applied: Target tokens of the windows whose update ran.
    """

    windows: int = 0
    updates: int = 0
    target_tokens_read: int = 0
    target_tokens_applied: int = 0

    def after(self, window: Window, *, ran: bool) -> Exposure:
        """Returns the counts with one more window."""
        targets = window.target_tokens
        return replace(
            self,
            windows=self.windows + 1,
            updates=self.updates + int(ran),
            target_tokens_read=self.target_tokens_read + targets,
            target_tokens_applied=self.target_tokens_applied + (targets if ran else 0),
        )

    def mismatch(self, planned: Planned) -> str | None:
        """Returns how the reading differs from the plan, as a sentence; None when it does not."""
        read = (self.windows, self.target_tokens_read)
        if read == (planned.windows, planned.target_tokens):
            return None
        return (
            f"Read {self.target_tokens_read} target tokens in {self.windows} windows; the plan"
            f" says {planned.target_tokens} in {planned.windows}."
        )
