"""Sentences and lists that several commands print."""

from __future__ import annotations

from collections.abc import Mapping


def counted(counts: Mapping[str, int]) -> str:
    """Returns "4 completed, 1 not run"."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def ending(trial: str, outcome: str, reason: str, detail: str) -> str:
    """Returns the line that says how a trial, or an attempt at one, ended."""
    return f"{trial} {outcome} ({reason})" + (f": {detail}" if detail else "")
