"""What the ranks of one trial have to agree on: sums, flags, and each other's bytes.

A rank is one of the processes that share every window. Each holds the whole model; micro-batches
are dealt among them in turn, gradients are summed once they are all there, and whatever is decided
is decided from summed values, so that no rank can go another way than the rest.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sweeper.training.trainable import Trainable


class Ranks(Protocol):
    """The seam between the loop and the processes that share it; all call the same, in order."""

    @property
    def rank(self) -> int:
        """This process, from 0; rank 0 writes and reports."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Adds the tensor up over all ranks, in place, and returns it: the same bits on each."""
        ...

    def any(self, *, flag: bool) -> bool:
        """Tells whether the flag is set on any rank."""
        ...

    def gather(self, content: bytes) -> list[bytes]:
        """Returns what each rank has given, by rank."""
        ...


class Alone:
    """One process has the trial to itself."""

    rank = 0
    count = 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Returns the tensor."""
        return tensor

    def any(self, *, flag: bool) -> bool:
        """Returns the flag."""
        return flag

    def gather(self, content: bytes) -> list[bytes]:
        """Returns the content alone."""
        return [content]


ALONE: Ranks = Alone()


def sum_gradients(tensors: Trainable, ranks: Ranks) -> None:
    """Adds up the gradients of all ranks, in place; a rank without one takes part with zeros.

    They travel as one flat tensor in the model's order, so that sums come out the same whenever a
    trial is taken up again. (Overlapping the transfer with the backward pass, as DDP does, groups
    them by the order in which they were ready in the first update, and a resumed trial has another
    first update.) A tensor that no rank has reached stays without a gradient.
    """
    if ranks.count == 1:
        return
    parameters = list(tensors.values())
    device = parameters[0].device
    there = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int32, device=device)
    reached = [
        parameter
        for parameter, count in zip(parameters, ranks.sum(there).tolist(), strict=True)
        if count
    ]
    if not reached:
        return
    flat = torch.cat([_gradient(parameter).flatten() for parameter in reached])
    summed = torch.split(ranks.sum(flat), [parameter.numel() for parameter in reached])
    for parameter, gradient in zip(reached, summed, strict=True):
        parameter.grad = gradient.view_as(parameter)


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
