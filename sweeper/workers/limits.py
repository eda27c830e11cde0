"""What one attempt may use. Standard library only, so that a supervisor starts at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from sweeper.records import Phase

LONG_PHASE_FACTOR = 5.0
"""Every other kind of work may be silent this many times longer than training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """The limits that a supervisor enforces; None is no limit.

    Attributes:
        wall_clock_seconds: For all attempts of the cell together.
        used_seconds: What earlier attempts of the cell used of it.
        host_memory_bytes: Proportional set size of the whole process tree.
        device_memory_bytes: What its processes hold on all of its GPUs, as the driver counts.
        disk_bytes: For the folders of all attempts of the cell together.
        used_disk_bytes: What earlier attempts of the cell hold of it.
        needed_disk_bytes: What a checkpoint and the weights take at the least.
        hang_seconds: Silence of `events.jsonl` while training.
        grace_seconds: Between the request to end and the kill: the window that is being trained is
            to be finished meanwhile.
        checkpoint_seconds: How much later the kill comes while the trial writes the checkpoint that
            the request is for.
    """

    wall_clock_seconds: float | None = None
    used_seconds: float = 0.0
    host_memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    disk_bytes: int | None = None
    used_disk_bytes: int = 0
    needed_disk_bytes: int = 0
    hang_seconds: float | None = None
    grace_seconds: float = 30.0
    checkpoint_seconds: float = 120.0

    def to_plain(self) -> dict[str, object]:
        """Returns the fields as values that JSON knows."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, object]) -> TrialLimits:
        """Returns what `to_plain` described.

        Raises:
            TypeError: A name is not one of ours.
        """
        return cls(**plain)  # type: ignore[arg-type]  # the names and types are the sender's


def silence_limit_seconds(hang_seconds: float, phase: Phase) -> float:
    """Returns how long a trial in `phase` may add nothing to its events."""
    return hang_seconds if phase is Phase.TRAINING else LONG_PHASE_FACTOR * hang_seconds


def wall_clock_excess(limits: TrialLimits, wall_seconds: float) -> str | None:
    """Returns the sentence for a wall clock that ran out, or None while it has not."""
    allowed = limits.wall_clock_seconds
    if allowed is None or limits.used_seconds + wall_seconds < allowed:
        return None
    return (
        f"wall clock of {allowed:g} s reached: {limits.used_seconds:.1f} s in earlier attempts, "
        f"{wall_seconds:.1f} s in this one"
    )


def host_memory_excess(limits: TrialLimits, memory_bytes: int) -> str | None:
    """Returns the sentence for a tree that is too large, or None while it is not."""
    allowed = limits.host_memory_bytes
    if allowed is None or memory_bytes < allowed:
        return None
    return f"host memory of {allowed} bytes reached: the trial's processes hold {memory_bytes}"


def device_memory_excess(limits: TrialLimits, memory_bytes: int) -> str | None:
    """Returns the sentence for too much memory on GPUs, or None while it is not."""
    allowed = limits.device_memory_bytes
    if allowed is None or memory_bytes < allowed:
        return None
    return f"device memory of {allowed} bytes reached: the trial's processes hold {memory_bytes}"


def disk_excess(limits: TrialLimits, folder_bytes: int) -> str | None:
    """Returns the sentence for folders that are too large, or None while they are not."""
    allowed = limits.disk_bytes
    if allowed is None or limits.used_disk_bytes + folder_bytes < allowed:
        return None
    return (
        f"disk of {allowed} bytes reached: {limits.used_disk_bytes} bytes in earlier attempts, "
        f"{folder_bytes} in this one"
    )


def silence_excess(limits: TrialLimits, silent_seconds: float, phase: Phase) -> str | None:
    """Returns the sentence for a trial that hangs, or None while it does not."""
    if limits.hang_seconds is None:
        return None
    allowed = silence_limit_seconds(limits.hang_seconds, phase)
    if silent_seconds < allowed:
        return None
    return f"no event for {silent_seconds:.1f} s while {phase}; {allowed:g} s are allowed"
