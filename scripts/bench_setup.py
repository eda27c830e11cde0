"""What bench_loop.py tells its contenders: the sizes of model, records and laps. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

WARM_WINDOWS = 2
"""Not timed: in the first ones an optimizer makes its moments and a GPU its kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The same for all contenders.

    Attributes:
        device: `cpu` or `cuda`.
        tokens: Of the longest record; when packing, of a row.
        packed: Rows of several records instead of one padded record each.
        micro_batch: Rows per forward pass.
        micro_batches: Forward passes per window.
        windows: Those of a lap that are timed.
    """

    device: str
    hidden: int
    layers: int
    heads: int
    vocabulary: int
    tokens: int
    attention: str = "sdpa"
    packed: bool
    micro_batch: int
    micro_batches: int
    windows: int
    threads: int = 1

    @property
    def all_windows(self) -> int:
        """Windows of a lap, with those at its start that are not timed."""
        return WARM_WINDOWS + self.windows

    @property
    def rows_per_window(self) -> int:
        """Rows of one update."""
        return self.micro_batch * self.micro_batches


SIZES = MappingProxyType(
    {
        "tiny": {"hidden": 64, "layers": 4, "heads": 4, "vocabulary": 512, "tokens": 64},
        "small": {"hidden": 128, "layers": 4, "heads": 4, "vocabulary": 2048, "tokens": 128},
        "medium": {"hidden": 256, "layers": 6, "heads": 8, "vocabulary": 8192, "tokens": 256},
        "large": {"hidden": 2048, "layers": 16, "heads": 16, "vocabulary": 32768, "tokens": 1024},
    }
)
"""`small` is the default on a CPU, `large` (about 1e9 weights) on a GPU."""

BATCHES = MappingProxyType({"cpu": (4, 1), "cuda": (4, 2)})
"""Rows per forward pass, forward passes per window; all contenders hold their memory at once."""
