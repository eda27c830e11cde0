"""Whether a trial can fit on the disk, asked before it starts.

What it needs is a lower bound: a trial that is turned away would have failed on a full disk, or on
its limit, later.
"""

from __future__ import annotations

from pathlib import Path

from sweeper.records import Outcome, Reason
from sweeper.study.folder import StudyFolder
from sweeper.study.schema import Study
from sweeper.training.options import AdamWOptions, SgdOptions
from sweeper.training.report import ModelReport
from sweeper.workers.disk import folder_bytes, free_bytes
from sweeper.workers.limits import TrialLimits

SCALAR_BYTES = 4
"""Trainable tensors, and what an optimizer keeps of them, are float32."""


def least_disk_bytes(study: Study, folder: StudyFolder) -> int:
    """Returns what a trial writes at the least: one checkpoint and the weights it ends with.

    0 where nothing is known of the model.
    """
    if not folder.model_report.exists():
        return 0
    trainable = ModelReport.read(folder.model_report).trainable_parameters
    copies = 1 + _optimizer_copies(study.training.optimizer)  # in a checkpoint
    copies += 2 if study.selection.checkpoint == "best_validation" else 1
    return copies * trainable * SCALAR_BYTES


def attempts_bytes(attempt: Path) -> int:
    """Returns what the attempts at the cell hold so far, this one included."""
    return folder_bytes(attempt.parent)


def no_room(attempt: Path, limits: TrialLimits) -> Outcome | None:
    """Returns the ending of a trial that cannot fit, or None for one that may.

    Args:
        attempt: The folder that it would write to.
        limits: With what the trial needs and what its cell holds already.
    """
    needed, allowed, free = limits.needed_disk_bytes, limits.disk_bytes, free_bytes(attempt)
    if free is not None and free < needed:
        detail = (
            f"the disk is too full: a checkpoint and the weights need at least {needed} bytes, "
            f"{free} are free"
        )
    elif allowed is not None and limits.used_disk_bytes + needed >= allowed:
        detail = (
            f"a limit of {allowed} bytes on disk is too low: earlier attempts hold "
            f"{limits.used_disk_bytes}, a checkpoint and the weights need at least {needed} more"
        )
    else:
        return None
    evidence = {"needed_disk_bytes": str(needed)}
    if free is not None:
        evidence["free_disk_bytes"] = str(free)
    return Outcome(reason=Reason.DISK, detail=detail, evidence=evidence)


def _optimizer_copies(options: AdamWOptions | SgdOptions) -> int:
    """Returns how many values the optimizer keeps for each trainable one."""
    match options:
        case AdamWOptions():
            return 2
        case SgdOptions():
            return 1 if options.momentum else 0
