"""Ranks over torch.distributed: gloo on CPUs, NCCL on GPUs. They meet in a file.

Ranks are processes of one host. No address and no port is agreed on; the connections that gloo and
NCCL make among themselves are on the interface that the environment names, which is the business
of whoever starts the processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from sweeper.training.ranks import Ranks

TIMEOUT = timedelta(days=1)
"""Of a collective. While rank 0 writes a checkpoint the others wait in one; longer than any limit
on silence, because it is not this timeout that finds a lost rank: who started the ranks sees it."""


class LostTouch(Exception):
    """A collective failed: another rank is gone, or did not come in time."""


class ProcessGroup:
    """Implements `ranks.Ranks` on torch's default process group, which `joined` makes."""

    def __init__(self, *, rank: int, count: int, device: torch.device) -> None:
        self.rank = rank
        self.count = count
        self._device = device

    def sum(self, tensor: Tensor) -> Tensor:
        """Adds the tensor up over all ranks, in place; it may be on the host of a rank on a GPU.

        Raises:
            LostTouch: See there.
        """
        here = tensor if tensor.device.type == self._device.type else tensor.to(self._device)
        with _in_touch(self.rank):
            dist.all_reduce(here)
        return tensor if here is tensor else tensor.copy_(here)

    def any(self, *, flag: bool) -> bool:
        """Tells whether the flag is set on any rank.

        Raises:
            LostTouch: See there.
        """
        return bool(self.sum(torch.tensor(int(flag), device=self._device)))

    def gather(self, content: bytes) -> list[bytes]:
        """Returns what each rank has given, by rank; lengths may differ.

        Raises:
            LostTouch: See there.
        """
        lengths = [int(length) for length in self._gathered(torch.tensor([len(content)]))]
        padded = content.ljust(max(*lengths, 1), b"\0")
        rows = self._gathered(torch.frombuffer(bytearray(padded), dtype=torch.uint8))
        pairs = zip(rows, lengths, strict=True)
        return [row[:length].cpu().numpy().tobytes() for row, length in pairs]

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        here = tensor.to(self._device)
        rows = [torch.empty_like(here) for _ in range(self.count)]
        with _in_touch(self.rank):
            dist.all_gather(rows, here)
        return rows


@contextlib.contextmanager
def joined(
    meeting: Path,
    *,
    rank: int,
    count: int,
    device: torch.device,
    timeout: timedelta = TIMEOUT,
) -> Iterator[Ranks]:
    """Joins the other ranks; its body begins once all are there.

    When the body fails the group is left standing: to take it down in order would be to wait for
    ranks that may be waiting for this one. The end of the process ends it.

    Args:
        meeting: The file they meet in; must not exist before the first comes, and is gone after
            the last.
        device: Where this rank computes; every rank has one of its own, or the CPU.

    Raises:
        LostTouch: Not all ranks came.
    """
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    with _in_touch(rank):
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.FileStore(str(meeting), count),  # type: ignore[attr-defined]  # documented
            rank=rank,
            world_size=count,
            timeout=timeout,
            device_id=device if on_gpu else None,
        )
    yield ProcessGroup(rank=rank, count=count, device=device)
    dist.destroy_process_group()


@contextlib.contextmanager
def _in_touch(rank: int) -> Iterator[None]:
    """Gives failures of a collective one name; gloo's are plain `RuntimeError`s."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise LostTouch(f"rank {rank} lost touch with the others: {error}") from error
