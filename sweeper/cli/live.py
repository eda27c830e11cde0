"""The view of a running study: a table that redraws itself on a terminal, lines off it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from sweeper.cli.layout import cell
from sweeper.cli.output import console, is_animated
from sweeper.cli.wording import ending
from sweeper.records import Outcome
from sweeper.report.columns import NATS
from sweeper.store.plain import readable
from sweeper.sweep.observer import Observer, Progress
from sweeper.sweep.stop_request import StopRequest

STOPPING = "The running trials save a checkpoint and end. Ctrl-C again kills them."
BAR_WIDTH = 20
"""Characters of a progress bar where the terminal has room for it."""


@contextmanager
def watching(stream: TextIO, stop: StopRequest) -> Iterator[Observer]:
    """Yields the observer that suits the stream.

    Args:
        stream: Where to write; standard error.
        stop: What the user has asked for, to be confirmed on the screen.
    """
    screen = console(stream)
    if not is_animated(screen):
        yield Lines(stream)
        return
    view = LiveView(screen, stop)
    with Live(console=screen, get_renderable=view.render, refresh_per_second=4, transient=True):
        yield view


class Lines:
    """One line per event; progress at every quarter of the budget."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._quarters: dict[str, int] = {}

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """Says which attempt starts where."""
        self._quarters[cell] = 0
        self.message(_start(slot, cell, attempt))

    def progress(self, progress: Progress) -> None:
        """Says how far the trial is, when it has passed another quarter."""
        quarter = 4 * progress.target_tokens_read // progress.budget_target_tokens
        if quarter < 4 and quarter > self._quarters.get(progress.cell, 0):
            self._quarters[progress.cell] = quarter
            tokens, loss, rate, left = _numbers(progress)
            self.message(
                f"{progress.cell} {tokens} target tokens, loss {loss}, rate {rate}, {left} left"
            )

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:  # noqa: ARG002
        """Says how an attempt ended."""
        self.message(_ending(cell, outcome))

    def message(self, text: str) -> None:
        """Writes the line; a stream that is gone must not end a trial."""
        with contextlib.suppress(OSError):
            self._stream.write(f"{readable(text)}\n")
            self._stream.flush()


class LiveView:
    """One row per slot, redrawn; endings and messages scroll above it."""

    def __init__(self, screen: Console, stop: StopRequest) -> None:
        self._screen = screen
        self._stop = stop
        self._lock = threading.Lock()
        self._trials: dict[str, str] = {}
        self._progress: dict[str, Progress] = {}

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """Shows the trial in its slot, and says so when it is not its first attempt."""
        with self._lock:
            self._trials[slot] = cell
        if attempt > 1:
            self.message(_start(slot, cell, attempt))

    def progress(self, progress: Progress) -> None:
        """Shows how far the trial is."""
        with self._lock:
            self._progress[progress.slot] = progress

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:
        """Frees the slot's row and says how the attempt ended."""
        with self._lock:
            self._trials.pop(slot, None)
            self._progress.pop(slot, None)
        self.message(_ending(cell, outcome))

    def message(self, text: str) -> None:
        """Says it above the table; a terminal that is gone must not end a trial."""
        with contextlib.suppress(OSError):
            self._screen.print(readable(text))

    def render(self) -> RenderableType:
        """Returns what is on the screen now."""
        with self._lock:
            rows = [(slot, self._trials[slot], self._progress.get(slot)) for slot in self._trials]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("slot", no_wrap=True)
        table.add_column("trial", no_wrap=True)
        table.add_column("", max_width=BAR_WIDTH)
        for name in ("target tokens", "loss", "rate", "left"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("doing", no_wrap=True)
        for slot, trial, progress in sorted(rows):
            table.add_row(slot, trial, *_shown(progress))
        shown: list[RenderableType] = [table if rows else "working"]
        return Group(*shown, *_stopping(self._stop))


def _stopping(stop: StopRequest) -> tuple[str, ...]:
    if stop.is_by_user:
        return (STOPPING,)
    return (f"The study's deadline is reached. {STOPPING}",) if stop.is_late else ()


def _shown(progress: Progress | None) -> tuple[RenderableType, ...]:
    if progress is None:
        return "", "", "", "", "", "starting"
    bar = ProgressBar(
        total=progress.budget_target_tokens, completed=progress.target_tokens_read, width=None
    )
    return bar, *_numbers(progress), str(progress.phase or "starting")


def _numbers(progress: Progress) -> tuple[str, str, str, str]:
    """Returns target tokens of the budget, loss, rate and time left as text."""
    return (
        f"{progress.target_tokens_read}/{progress.budget_target_tokens}",
        cell(progress.loss, NATS),
        "-" if progress.learning_rate is None else f"{progress.learning_rate:.3g}",
        _clock(progress.seconds_left),
    )


def _clock(seconds: float | None) -> str:
    """Returns "4:07", or "2:04:07" from an hour on."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _start(slot: str, trial: str, attempt: int) -> str:
    again = f" again (attempt {attempt})" if attempt > 1 else ""
    return f"{trial} started{again} on {slot}"


def _ending(trial: str, outcome: Outcome) -> str:
    return ending(trial, outcome.kind, outcome.reason, outcome.detail)
