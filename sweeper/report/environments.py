"""What a trial ran on when not all of its attempts ran on the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.store.reading import Start

UNKNOWN = "not recorded"


def environment_of(stretches: Sequence[Start]) -> Mapping[str, str]:
    """Returns the environment of a trial, field by field, over the attempts in its history.

    A field that changed on the way holds every value with the window after which it holds, so that
    it equals that of no trial that ran otherwise: `cpu, then NVIDIA H200 after window 120`.

    Args:
        stretches: The attempts in the order of their windows.
    """
    names = sorted({name for stretch in stretches for name in stretch.environment})
    return {name: _over_time(name, stretches) for name in names}


def _over_time(name: str, stretches: Sequence[Start]) -> str:
    told, latest = "", None
    for stretch in stretches:
        value = stretch.environment.get(name, UNKNOWN)
        if latest is None:
            told = value
        elif value != latest:
            told += f", then {value} after window {stretch.resumed_after_window}"
        latest = value
    return told
