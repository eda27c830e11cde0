"""Looking on more closely than records do; replays of an anomaly have a probe of their own."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from sweeper.training.window import Window


class Probe(Protocol):
    """Is told of each micro-batch once its gradients are added."""

    def after_micro_batch(self, window: Window, place: int, loss_sum: Tensor) -> None:
        """Looks at what is there.

        Args:
            place: The micro-batch within the window, from 1.
            loss_sum: Summed token losses, a scalar.
        """
        ...


class NoProbe:
    """Nobody looks on."""

    def after_micro_batch(self, window: Window, place: int, loss_sum: Tensor) -> None:
        """Does nothing."""


NO_PROBE: Probe = NoProbe()
