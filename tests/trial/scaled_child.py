"""The process of an attempt whose loss is scaled, on a CPU, so far that windows overflow."""

from __future__ import annotations

import sys

import torch
from torch.amp import GradScaler

import sweeper.training.scaling
from sweeper.trial.main import main


def overflowing(_precision: str, device: torch.device) -> GradScaler:
    """Returns a scaler at a scale that halves when a window overflows and doubles after two that
    did not, so that both happen again and again."""
    return GradScaler(device.type, init_scale=2.0**126, growth_interval=2)


if __name__ == "__main__":
    sweeper.training.scaling.make_scaler = overflowing
    sys.exit(main())
