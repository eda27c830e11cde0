"""What has come of one window: filled in by the loop, read by records and evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from sweeper.records import Skip
from sweeper.training.anatomy import TensorFacts
from sweeper.training.batch import Batch
from sweeper.training.exposure import Read
from sweeper.training.window import Window


@dataclass(slots=True, kw_only=True)
class Tried:
    """One window on its way.

    Attributes:
        batches: Its micro-batches, those of all ranks.
        learning_rate: As the optimizer holds it.
        loss_scale: None without loss scaling.
        loss_sums: Summed token losses of each micro-batch in nats; empty without targets.
        norm: Global norm of the gradients, before clipping, as a tensor.
        tensors: What the gradients looked like in an update that was not made.
    """

    window: Window
    batches: tuple[Batch, ...]
    learning_rate: float | None = None
    loss_scale: float | None = None
    loss_sums: tuple[float, ...] = ()
    loss: float | None = None
    norm: Tensor = field(default_factory=lambda: torch.zeros(()))
    gradient_norm: float | None = None
    clipped: bool = False
    skip: Skip | None = Skip.NO_TARGETS
    tensors: tuple[TensorFacts, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether the update was made."""
        return self.skip is None

    @property
    def read(self) -> Read:
        """What the model was given."""
        return Read(
            target_tokens=sum(batch.target_tokens for batch in self.batches),
            padding_tokens=sum(batch.padding_tokens for batch in self.batches),
        )

    def take(self, sums: Tensor) -> None:
        """Takes the loss sums of the micro-batches, and the norm, in one transfer."""
        loss = sums.sum() / self.window.target_tokens
        *each, self.loss, self.gradient_norm = torch.cat(
            (sums, torch.stack((loss, self.norm.to(loss))))
        ).tolist()
        self.loss_sums = tuple(each)
