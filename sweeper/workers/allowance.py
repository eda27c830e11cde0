"""From the limits that a study agreed on to those of its next attempt."""

from __future__ import annotations

from sweeper.options import duration_seconds, size_bytes
from sweeper.study.run_options import Limits
from sweeper.workers.limits import TrialLimits


def trial_limits(
    agreed: Limits,
    *,
    used_seconds: float = 0.0,
    used_disk_bytes: int = 0,
    needed_disk_bytes: int = 0,
) -> TrialLimits:
    """Returns the limits of an attempt at a cell.

    Args:
        agreed: `run.limits` of the study.
        used_seconds: Wall seconds of the cell's earlier attempts.
        used_disk_bytes: What their folders hold.
        needed_disk_bytes: What the attempt writes at the least.
    """
    wall_clock, memory, disk = agreed.wall_clock, agreed.host_memory, agreed.disk
    device = agreed.device_memory
    return TrialLimits(
        wall_clock_seconds=None if wall_clock is None else duration_seconds(wall_clock),
        used_seconds=used_seconds,
        host_memory_bytes=None if memory is None else size_bytes(memory),
        device_memory_bytes=None if device is None else size_bytes(device),
        disk_bytes=None if disk is None else size_bytes(disk),
        used_disk_bytes=used_disk_bytes,
        needed_disk_bytes=needed_disk_bytes,
        hang_seconds=duration_seconds(agreed.hang),
    )
