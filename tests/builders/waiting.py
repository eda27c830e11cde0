"""Waiting for what other processes do, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_Answer = TypeVar("_Answer")


def within(
    seconds: float, question: Callable[[], _Answer], *, seen: Callable[[], str] = str
) -> _Answer:
    """Returns the first true answer; it is asked for once more when the time is over.

    So a machine that stands still for longer than that is not taken for a missing answer.

    Args:
        seen: Says for the message what there is instead of an answer.
    """
    give_up = time.monotonic() + seconds
    while True:
        is_late = time.monotonic() >= give_up
        if answer := question():
            return answer
        if is_late:
            raise AssertionError(f"not within {seconds:g} s. {seen()}".strip())
        time.sleep(0.02)
