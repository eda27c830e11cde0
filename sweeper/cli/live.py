"""The view of a running study: a table that redraws itself on a terminal, lines off it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.cli.output import cell, console
from sweeper.records import Outcome
from sweeper.sweep.observer import Observer, Progress


@contextmanager
def watching(stream: TextIO) -> Iterator[Observer]:
    """Yields the observer that suits the stream."""
    screen = console(stream)
    if not screen.is_terminal:
        yield Lines(screen)
        return
    view = LiveView()
    with Live(console=screen, get_renderable=view.render, refresh_per_second=4) as live:
        view.above = live.console
        yield view


class Lines:
    """One line per event; progress at every quarter of the budget."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._quarters: dict[str, int] = {}

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """Says which attempt starts where."""
        self._quarters[cell] = 0
        self._say(f"{cell} started on {slot}" + (f" (attempt {attempt})" if attempt > 1 else ""))

    def progress(self, progress: Progress) -> None:
        """Says how far the trial is, when it has passed another quarter."""
        quarter = 4 * progress.target_tokens_read // progress.budget_target_tokens
        if 0 < quarter < 4 and quarter > self._quarters.get(progress.cell, 0):
            self._quarters[progress.cell] = quarter
            self._say(
                f"{progress.cell} {_tokens(progress)}, loss {cell(progress.loss)}, "
                f"rate {_rate(progress)}, {_left(progress)} left"
            )

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:  # noqa: ARG002
        """Says how an attempt ended."""
        self._say(ending(cell, outcome))

    def message(self, text: str) -> None:
        """Says it."""
        self._say(text)

    def _say(self, line: str) -> None:
        self._screen.print(line, markup=False)


class LiveView:
    """One row per slot, redrawn; endings and messages scroll above it."""

    def __init__(self) -> None:
        self.above = Console(quiet=True)
        self._lock = threading.Lock()
        self._rows: dict[str, Progress | str] = {}

    def slot_started(self, *, slot: str, cell: str, attempt: int) -> None:
        """Shows the trial in its slot."""
        again = f" (attempt {attempt})" if attempt > 1 else ""
        with self._lock:
            self._rows[slot] = f"{cell}{again}"

    def progress(self, progress: Progress) -> None:
        """Shows how far the trial is."""
        with self._lock:
            self._rows[progress.slot] = progress

    def trial_ended(self, *, slot: str, cell: str, outcome: Outcome) -> None:
        """Frees the slot's row and says how the attempt ended."""
        with self._lock:
            self._rows.pop(slot, None)
        self.message(ending(cell, outcome))

    def message(self, text: str) -> None:
        """Says it above the table."""
        self.above.print(text, markup=False)

    def render(self) -> Group | Table:
        """Returns what is on the screen now."""
        with self._lock:
            rows = sorted(self._rows.items())
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("slot", "trial", "", "target tokens", "loss", "rate", "left"):
            table.add_column(name)
        for slot, shown in rows:
            if isinstance(shown, str):
                table.add_row(slot, shown, "", "starting")
            else:
                table.add_row(slot, shown.cell, _bar(shown), *_numbers(shown))
        return table if rows else Group(Text("preparing"))


def ending(trial: str, outcome: Outcome) -> str:
    """Returns the line that says how an attempt ended; a plain completion needs no reason."""
    return f"{trial} {outcome.kind}: {outcome.reason}. {outcome.detail}"


def _bar(progress: Progress) -> ProgressBar:
    return ProgressBar(
        total=progress.budget_target_tokens, completed=progress.target_tokens_read, width=20
    )


def _numbers(progress: Progress) -> tuple[str, str, str, str]:
    phase = "" if progress.phase in {None, "training"} else f" {progress.phase}"
    return (
        _tokens(progress) + phase,
        cell(progress.loss),
        _rate(progress),
        _left(progress),
    )


def _tokens(progress: Progress) -> str:
    return f"{progress.target_tokens_read} of {progress.budget_target_tokens}"


def _rate(progress: Progress) -> str:
    return "-" if progress.learning_rate is None else f"{progress.learning_rate:.3g}"


def _left(progress: Progress) -> str:
    if progress.seconds_left is None:
        return "-"
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return f"{minutes}:{seconds:02d}"
