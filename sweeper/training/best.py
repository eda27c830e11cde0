"""The weights with the lowest validation loss so far, kept in host memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from sweeper.records import Evaluation
from sweeper.training.trainable import Trainable
from sweeper.training.watch import VALIDATION


class Best:
    """Remembers the best weights; of equal losses the earlier one stays.

    The evaluation before the first update is no candidate: what is kept was trained.

    Attributes:
        loss: Nats per target token; None until there was a finite one.
        index: Grid index of that evaluation.
        weights: Copies on the host, by name.
    """

    def __init__(self) -> None:
        self.loss: float | None = None
        self.index: int | None = None
        self.weights: Mapping[str, Tensor] = {}

    def consider(self, evaluation: Evaluation, tensors: Trainable) -> None:
        """Keeps the weights if the evaluation is of the validation split and the best so far."""
        if evaluation.split != VALIDATION or evaluation.index == 0:
            return
        if not math.isfinite(evaluation.loss):
            return
        if self.loss is None or evaluation.loss < self.loss:
            self.put(evaluation.loss, evaluation.index, copied(tensors))

    def put(self, loss: float, index: int, weights: Mapping[str, Tensor]) -> None:
        """Takes over what was kept before, for instance in a checkpoint."""
        self.loss, self.index, self.weights = loss, index, weights

    @contextlib.contextmanager
    def in_place(self, tensors: Trainable) -> Iterator[None]:
        """Runs its body with the best weights in the model, and puts the last ones back."""
        last = copied(tensors)
        load(self.weights, tensors)
        try:
            yield
        finally:
            load(last, tensors)


def copied(tensors: Trainable) -> dict[str, Tensor]:
    """Returns copies of the tensors on the host."""
    return {name: p.detach().to("cpu", copy=True) for name, p in tensors.items()}


def load(weights: Mapping[str, Tensor], tensors: Trainable) -> None:
    """Writes the weights into the tensors of the same names; both have the same ones."""
    assert weights.keys() == tensors.keys(), "a state of other tensors"
    with torch.no_grad():
        for name, parameter in tensors.items():
            parameter.copy_(weights[name])
