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


def make_deterministic(*, deterministic: bool, threads: int) -> None:
    """Sets torch's threads and, if asked, deterministic algorithms for the rest of the process.

    On CUDA the environment must hold CUBLAS_WORKSPACE_CONFIG before the first use of cuBLAS;
    whoever starts the process sets it.
    """
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = False


def seed_everything(seed: int) -> None:
    """Seeds Python, numpy and torch; called right before training it is what dropout draws from."""
    own = stream_seed(seed, "training")
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
