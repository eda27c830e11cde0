"""The device that an attempt was given."""

from __future__ import annotations

from collections.abc import Mapping

import torch

VARIABLE = "CUDA_VISIBLE_DEVICES"


class DeviceMissing(Exception):
    """The slot has a GPU, but torch does not see exactly that one."""


def given_device(environ: Mapping[str, str], *, rank: int = 0, ranks: int = 1) -> torch.device:
    """Returns the rank's own of the GPUs that the slot names, or the CPU where it names none.

    A GPU that is not there is never replaced by the CPU: the numbers would be others.

    Raises:
        DeviceMissing: torch sees another number of GPUs than there are ranks.
    """
    name = environ.get(VARIABLE, "")
    if not name:
        return torch.device("cpu")
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen != ranks:
        raise DeviceMissing(
            f"the slot has the device {name!r} for {ranks} ranks, but torch sees {seen} GPUs"
        )
    return torch.device("cuda", rank)


def fence(device: torch.device, *, limit_bytes: int | None) -> None:
    """Lets torch's allocator hold no more than the limit on the device; nothing on the CPU.

    It says so at once, where the supervisor only looks from time to time; but the supervisor also
    sees what is held beside the allocator.
    """
    if limit_bytes is None or device.type != "cuda":
        return
    total_bytes = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total_bytes), device)
