"""The optimizers. A rate is never kept here: the loop sets it before every update."""

from __future__ import annotations

import torch
from torch.optim import SGD, AdamW, Optimizer

from sweeper.training.options import AdamWOptions, SgdOptions
from sweeper.training.trainable import Trainable


def make_optimizer(tensors: Trainable, options: AdamWOptions | SgdOptions) -> Optimizer:
    """Returns an optimizer without a rate of its own.

    Decay acts on tensors of two or more dimensions: matrices, not biases or norms. AdamW's is
    decoupled from the gradient; SGD's is added to it. Never the fused AdamW: it hides from its
    caller whether it stepped.
    """
    groups = _groups(tensors, options.weight_decay)
    match options:
        case AdamWOptions():
            return AdamW(groups, lr=0.0, betas=options.betas, eps=options.eps, fused=False)
        case SgdOptions():
            return SGD(groups, lr=0.0, momentum=options.momentum, fused=False)


def set_rate(optimizer: Optimizer, rate: float) -> float:
    """Sets the rate of every group and returns what the optimizer now holds."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    (held,) = {float(group["lr"]) for group in optimizer.param_groups}
    return held


def _groups(tensors: Trainable, weight_decay: float) -> list[dict[str, object]]:
    matrices = [p for p in tensors.values() if p.dim() >= 2]
    others = [p for p in tensors.values() if p.dim() < 2]
    groups: tuple[tuple[list[torch.nn.Parameter], float], ...] = (
        (matrices, weight_decay),
        (others, 0.0),
    )
    return [{"params": members, "weight_decay": decay} for members, decay in groups if members]
