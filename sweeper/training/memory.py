"""Peak memory of this process, or of its device."""

from __future__ import annotations

import resource
import sys

import torch

_MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def peak_memory_bytes(device: torch.device) -> int:
    """Returns the peak of allocated device memory on a GPU, of resident host memory on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT_BYTES
