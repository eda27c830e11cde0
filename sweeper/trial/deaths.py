"""What the signal that ended a process says about why. Standard library only."""

from __future__ import annotations

import signal

from sweeper.records import Outcome, Reason

_CRASHES = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGABRT,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)
"""Signals that a process gets for what it did itself."""


def outcome_of_signal(number: int) -> Outcome:
    """Returns the outcome of a process that a signal ended which sweeper did not send."""
    name = signal_name(number)
    if number in _CRASHES:
        reason, detail = Reason.CRASHED, f"crashed with {name}"
    else:
        reason, detail = Reason.KILLED, f"killed by {name}, which sweeper did not send"
    return Outcome(reason=reason, detail=detail, evidence={"signal": name})


def signal_name(number: int) -> str:
    """Returns the signal's name, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
