"""How anything reaches the terminal: results on standard output, all else on standard error."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from rich.console import Console

from sweeper.store.plain import readable

WIDTH_OFF_TERMINAL = 240
"""Characters per line where no terminal sets them: wide enough for the tables."""


def never_fail_on_characters() -> None:
    """Makes both streams write what their encoding lacks as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def terminal_silencer() -> Callable[[], None]:
    """Returns what makes a terminal that was closed harmless: what is still said goes nowhere.

    To be made while the terminal is there; standard streams that lead elsewhere stay as they are.
    """
    terminals = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def silence() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    return silence


def console(stream: TextIO | None = None) -> Console:
    """Returns a console on standard output, or on `stream`; all text is taken as it is.

    It obeys NO_COLOR and COLUMNS, and adds no colour off a terminal.
    """
    target = sys.stdout if stream is None else stream
    has_width = target.isatty() or os.environ.get("COLUMNS", "").isdigit()
    width = None if has_width else WIDTH_OFF_TERMINAL
    return Console(file=target, width=width, highlight=False, markup=False, emoji=False)


def is_animated(screen: Console) -> bool:
    """Says whether lines may be drawn again; never off a terminal, whatever is forced."""
    return screen.file.isatty() and screen.is_interactive


def write(text: str, *, style: str | None = None) -> None:
    """Writes a line of the result; it is broken between words on a terminal, and only there."""
    _print(console(), text, style)


def pour(text: str) -> None:
    """Writes text as it is, at once: it brings its own line ends."""
    sys.stdout.write(text)
    sys.stdout.flush()


def tell(text: str) -> None:
    """Writes a line for the person at the terminal, beside the result."""
    _print(console(sys.stderr), text, None)


def name_next(*words: object, remark: str = "") -> None:
    """Says which command comes next; words that a shell would take apart are quoted."""
    command = shlex.join(["sweeper", *map(str, words)])
    tell(f"Next: {command}{f'   ({remark})' if remark else ''}")


def options(given: Mapping[str, object]) -> list[object]:
    """Returns the options that were given, to be named again: flags alone, others with a value."""
    words: list[object] = []
    for name, value in given.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, value]
    return words


def print_json(value: object) -> None:
    """Prints `value` as JSON in ASCII; a number that is not finite would be a fault of ours."""
    print(json.dumps(value, indent=1, allow_nan=False), flush=True)  # noqa: T201


def _print(screen: Console, text: str, style: str | None) -> None:
    screen.print(readable(text), style=style, soft_wrap=not screen.file.isatty())
