"""Lines about work that takes a while, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.text import Text

from sweeper.cli.output import console, is_animated, tell


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows one line: in place on a terminal, one below another off it."""
    screen = console(sys.stderr)
    if not is_animated(screen):
        yield tell
        return
    with screen.status("") as status:
        yield lambda line: status.update(Text(line))
