"""What each trainable tensor looks like at one moment: the parts of a norm that is not finite."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sweeper.training.trainable import Trainable


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """One trainable tensor.

    Attributes:
        weight_norm: Of the finite and other values alike, so it may not be finite.
        gradient_norm: As the update used it: loss scaling taken out, and clipped if the window
            was. None where there is no gradient.
        nonfinite_weights: How many of its values are not finite.
        nonfinite_gradients: How many values of its gradient are not.
    """

    name: str
    weight_norm: float
    gradient_norm: float | None
    nonfinite_weights: int
    nonfinite_gradients: int


def anatomy(tensors: Trainable, *, with_gradients: bool = True) -> tuple[TensorFacts, ...]:
    """Returns the facts of all tensors, in the model's order.

    Args:
        with_gradients: Whether the gradients that are there belong to this moment.
    """
    return tuple(
        _facts(name, parameter.detach(), parameter.grad if with_gradients else None)
        for name, parameter in tensors.items()
    )


def has_nonfinite_gradient(tensors: Trainable) -> bool:
    """Tells whether any value of any gradient is not finite; a norm can overflow without one."""
    return any(p.grad is not None and bool(_nonfinite(p.grad)) for p in tensors.values())


def _facts(name: str, weight: Tensor, gradient: Tensor | None) -> TensorFacts:
    return TensorFacts(
        name=name,
        weight_norm=_norm(weight),
        gradient_norm=None if gradient is None else _norm(gradient),
        nonfinite_weights=_nonfinite(weight),
        nonfinite_gradients=0 if gradient is None else _nonfinite(gradient),
    )


def _norm(values: Tensor) -> float:
    # float64: the squares of large float32 values would overflow and hide which tensor is at fault
    return float(values.double().norm())


def _nonfinite(values: Tensor) -> int:
    return int((~values.isfinite()).sum())
