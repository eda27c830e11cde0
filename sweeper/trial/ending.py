"""From an exception to the outcome of an attempt.

Libraries' errors are told by the names in their ancestry, so that this module can be read before
torch is loaded; an error of a library that was never loaded cannot occur.
"""

from __future__ import annotations

import errno
import traceback
import types

from sweeper.errors import DataError
from sweeper.records import Outcome, OutcomeKind, Reason
from sweeper.trial.exit_status import ExitStatus

TRACEBACK_CHARACTERS = 4000
"""Of its end, which names the error; all of it is in stderr.log."""
LINE_CHARACTERS = 1000
"""Of each part of it, and of the message."""

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_TEXT = tuple(f"(os error {number})" for number in sorted(_DISK))
"""How errors of native code end that carry the number in their message only (safetensors)."""
_BY_NAME = types.MappingProxyType(
    {
        "torch.OutOfMemoryError": Reason.DEVICE_MEMORY,
        "torch.AcceleratorError": Reason.DEVICE_ERROR,
        "sweeper.trial.device.DeviceMissing": Reason.DEVICE_ERROR,
        "sweeper.training.process_group.LostTouch": Reason.DEVICE_ERROR,
    }
)
_BY_TEXT = (
    ("CUDA error: out of memory", Reason.DEVICE_MEMORY),
    ("CUDA error: device-side assert", Reason.CODE_ERROR),  # an index out of range, mostly
    ("CUDA error:", Reason.DEVICE_ERROR),
)
"""How messages begin; a library's name for the error has changed between its versions."""


def outcome_of(error: BaseException) -> Outcome:
    """Returns the outcome of an attempt that ended in this exception.

    The evidence holds the end of the traceback.
    """
    text = "".join(_shortened(part) for part in traceback.format_exception(error))
    return Outcome(
        reason=_reason(error),
        detail=_first_line(error),
        evidence={"error": type(error).__name__, "traceback": text[-TRACEBACK_CHARACTERS:]},
    )


def exit_status_of(outcome: Outcome) -> ExitStatus:
    """Returns the exit status that goes with an outcome."""
    orderly = outcome.kind in {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}
    if orderly or outcome.reason is Reason.PREEMPTED:
        return ExitStatus.ORDERLY
    return ExitStatus.TROUBLE


def is_disk_full(error: BaseException) -> bool:
    """Says whether the error means that there is no space, or no quota, left."""
    if isinstance(error, OSError):
        return error.errno in _DISK
    return str(error).endswith(_DISK_TEXT)


def _reason(error: BaseException) -> Reason:
    if isinstance(error, DataError):
        return Reason.DATA_ERROR
    if is_disk_full(error):
        return Reason.DISK
    by_text = (reason for text, reason in _BY_TEXT if str(error).startswith(text))
    ancestry = (f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__)
    by_name = (_BY_NAME[name] for name in ancestry if name in _BY_NAME)
    return next(by_text, next(by_name, Reason.CODE_ERROR))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {_shortened(lines[0])}" if lines else type(error).__name__


def _shortened(text: str) -> str:
    """Returns head and tail of a part of a message that somebody filled with data."""
    left_out = len(text) - LINE_CHARACTERS
    if left_out <= 0:
        return text
    half = LINE_CHARACTERS // 2
    return f"{text[:half]} [{left_out} characters left out] {text[-half:]}"
