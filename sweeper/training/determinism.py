"""Seeds, deterministic algorithms and threads.

The trial's seed governs the adapter's initial values and dropout. Each use draws from a stream of
its own, so that none depends on how much another has drawn.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator

import numpy as np
import torch

_NUMPY_SEEDS = 2**32


def make_deterministic(*, deterministic: bool, threads: int, tf32: bool = False) -> None:
    """Sets torch's threads and, if asked, deterministic algorithms for the rest of the process.

    TF32 is off unless asked for, in matrix products as well as in convolutions, where torch has it
    on. Its older switches are used: torch 2.13 refuses to read them once the newer ones
    (`fp32_precision`) say "tf32", and reads them itself, for instance when it compiles.

    On CUDA the environment must hold CUBLAS_WORKSPACE_CONFIG before the first use of cuBLAS;
    whoever starts the process sets it.
    """
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = False


def seed_everything(seed: int, *, rank: int = 0) -> None:
    """Seeds Python, numpy and torch; called right before training it is what dropout draws from.

    Ranks see different records, so each draws from a stream of its own.
    """
    own = stream_seed(seed, f"training of rank {rank}" if rank else "training")
    random.seed(own)
    np.random.seed(own % _NUMPY_SEEDS)  # noqa: NPY002  # libraries draw from the global stream
    torch.manual_seed(own)


@contextlib.contextmanager
def seeded(seed: int, purpose: str, device: torch.device) -> Iterator[None]:
    """Runs its body on a fresh torch stream of (seed, purpose) and then restores the former one."""
    with preserved(device):
        torch.manual_seed(stream_seed(seed, purpose))
        yield


@contextlib.contextmanager
def preserved(device: torch.device) -> Iterator[None]:
    """Runs its body and restores torch's random states: what it draws, nobody misses."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield


def stream_seed(seed: int, purpose: str) -> int:
    """Returns the seed of one purpose's stream, below 2**63: SHA-256 of `purpose:seed`."""
    digest = hashlib.sha256(f"{purpose}:{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
