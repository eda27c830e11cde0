from __future__ import annotations

import errno

import pytest
import torch
from safetensors import SafetensorError

from sweeper.errors import DataError, ModelError
from sweeper.records import Outcome, Reason
from sweeper.trial.device import DeviceMissing
from sweeper.trial.ending import exit_status_of, is_disk_full, outcome_of
from sweeper.trial.exit_status import ExitStatus


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("x"), Reason.CODE_ERROR),
        (ModelError("x"), Reason.CODE_ERROR),
        (MemoryError(), Reason.CODE_ERROR),
        (DataError("x"), Reason.DATA_ERROR),
        (OSError(errno.ENOSPC, "No space left on device"), Reason.DISK),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Reason.DISK),
        (OSError(errno.EACCES, "Permission denied"), Reason.CODE_ERROR),
        (torch.OutOfMemoryError("CUDA out of memory. Tried …"), Reason.DEVICE_MEMORY),
        (RuntimeError("CUDA error: out of memory"), Reason.DEVICE_MEMORY),
        (RuntimeError("CUDA error: unspecified launch failure"), Reason.DEVICE_ERROR),
        (RuntimeError("CUDA error: device-side assert triggered"), Reason.CODE_ERROR),
        (RuntimeError("shapes do not match"), Reason.CODE_ERROR),
        (DeviceMissing("x"), Reason.DEVICE_ERROR),
    ],
)
def test_an_exception_has_the_reason_of_what_it_means(error, reason):
    assert outcome_of(error).reason is reason


def test_an_accelerator_error_is_the_devices():
    """Its constructor takes no message from Python, so only its type speaks here."""
    error = torch.AcceleratorError.__new__(torch.AcceleratorError)

    assert outcome_of(error).reason is Reason.DEVICE_ERROR


def test_the_detail_names_the_error_and_the_evidence_holds_the_traceback():
    with pytest.raises(ZeroDivisionError) as caught:
        1 // 0  # noqa: B018 - it is the division that counts

    outcome = outcome_of(caught.value)

    assert outcome.detail.startswith("ZeroDivisionError: integer division")
    assert outcome.evidence["error"] == "ZeroDivisionError"
    assert outcome.evidence["traceback"].startswith("Traceback (most recent call last)")
    assert "1 // 0" in outcome.evidence["traceback"]


def test_a_long_message_is_cut_in_the_middle_and_leaves_the_traceback_its_frames():
    with pytest.raises(ValueError, match="the end") as caught:
        raise ValueError("x" * 9000 + " the end")

    outcome = outcome_of(caught.value)

    told = outcome.evidence["traceback"]
    assert told.startswith("Traceback (most recent call last):\n")
    assert "test_a_long_message_is_cut" in told
    assert " characters left out] xx" in told
    assert told.endswith("x the end\n")
    assert len(outcome.detail) < 1100


def test_a_long_traceback_keeps_its_end():
    error = ValueError("the end")
    error.add_note("y" * 9000)
    for _ in range(60):
        error.add_note("z" * 90)

    told = outcome_of(error).evidence["traceback"]

    assert len(told) == 4000
    assert told.endswith("z\n")


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (Reason.BUDGET_REACHED, ExitStatus.ORDERLY),
        (Reason.DIVERGED, ExitStatus.ORDERLY),
        (Reason.PREEMPTED, ExitStatus.ORDERLY),
        (Reason.CODE_ERROR, ExitStatus.TROUBLE),
        (Reason.DEVICE_MEMORY, ExitStatus.TROUBLE),
        (Reason.DEVICE_ERROR, ExitStatus.TROUBLE),
    ],
)
def test_only_an_orderly_end_exits_with_0(reason, status):
    assert exit_status_of(Outcome(reason=reason, detail="")) is status


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (SafetensorError("I/O error: No space left on device (os error 28)"), True),
        (SafetensorError("I/O error: Input/output error (os error 5)"), False),
        (ValueError("No space left on device"), False),
    ],
)
def test_a_full_disk_is_told_by_its_number_also_where_native_code_met_it(error, is_full):
    assert is_disk_full(error) is is_full
