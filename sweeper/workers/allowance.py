"""From the limits that a study agreed on to those of its next attempt."""

from __future__ import annotations

from sweeper.options import duration_seconds, size_bytes
from sweeper.study.run_options import Limits
from sweeper.workers.limits import TrialLimits


def trial_limits(agreed: Limits, *, used_seconds: float = 0.0) -> TrialLimits:
    """Returns the limits of an attempt at a cell.

    Args:
        agreed: `run.limits` of the study.
        used_seconds: Wall seconds of the cell's earlier attempts.
    """
    wall_clock, memory = agreed.wall_clock, agreed.host_memory
    return TrialLimits(
        wall_clock_seconds=None if wall_clock is None else duration_seconds(wall_clock),
        used_seconds=used_seconds,
        host_memory_bytes=None if memory is None else size_bytes(memory),
        hang_seconds=duration_seconds(agreed.hang),
    )
