"""The tensors that training changes, and everything that is asked about them.

Two of them over one storage would be updated twice; a tensor that gets no gradient is not trained
though the report would say so. Both are refused, by name.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from sweeper.errors import Fault, ModelError
from sweeper.training.precision import ResolvedPrecision, trainable_dtype

Trainable = Mapping[str, nn.Parameter]
"""Trainable tensors by name, in the model's order; a shared parameter comes once."""

_SHOWN_NAMES = 8
_BITS = MappingProxyType({torch.float32: torch.int32, torch.float64: torch.int64})


def trainable(model: nn.Module) -> Trainable:
    """Returns the tensors that require a gradient.

    Raises:
        ModelError: There is none, or two of them share storage.
    """
    tensors = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not tensors:
        raise ModelError(
            Fault(
                what="the model has no trainable parameter",
                expected="at least one tensor that requires a gradient",
                hint="Check `tune` and the adapter's targets.",
            )
        )
    _refuse_shared_storage(tensors)
    return tensors


def check_dtype(tensors: Trainable, precision: ResolvedPrecision) -> None:
    """Refuses trainable tensors of another dtype than float32 (float64 in float64).

    Raises:
        ModelError: At least one is.
    """
    wrong = [name for name, p in tensors.items() if p.dtype != trainable_dtype(precision)]
    if wrong:
        raise ModelError(
            Fault(
                what="trainable tensors are not float32, so small updates would be lost",
                got=f"{tensors[wrong[0]].dtype} in {name_some(wrong)}",
                expected=str(trainable_dtype(precision)),
                hint="With tune: full use model.dtype: float32; bfloat16 may still be the"
                " precision.",
            )
        )


def count(tensors: Trainable) -> int:
    """Returns the number of trainable scalars."""
    return sum(parameter.numel() for parameter in tensors.values())


def digest(tensors: Trainable) -> str:
    """Returns the SHA-256 over names, dtypes, shapes and bytes, hexadecimal."""
    sha = hashlib.sha256()
    for name, parameter in tensors.items():
        sha.update(f"{name} {parameter.dtype} {list(parameter.shape)}\n".encode())
        sha.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def nonfinite(tensors: Trainable) -> tuple[str, ...]:
    """Returns the names of the tensors that hold a value that is not finite."""
    finite = torch.stack([p.detach().isfinite().all() for p in tensors.values()]).tolist()
    return tuple(name for name, ok in zip(tensors, finite, strict=True) if not ok)


def gradient_norm(tensors: Trainable) -> Tensor:
    """Returns the global norm of all gradients, a scalar; it is not finite if one of them isn't."""
    gradients = [p.grad for p in tensors.values() if p.grad is not None]
    return nn.utils.get_total_norm(gradients)


def clip_gradients(tensors: Trainable, norm: Tensor, clip_norm: float | None) -> bool:
    """Scales all gradients down if their global norm is above `clip_norm`; tells whether it was.

    torch adds 1e-6 to the divisor, so the norm afterwards is a little below `clip_norm`. The norm
    has to be finite: one that overflowed would scale finite gradients to zero without a word.
    """
    assert norm.isfinite(), "clipping by a norm that is not finite"
    if clip_norm is None or float(norm) <= clip_norm:
        return False
    nn.utils.clip_grads_with_norm_(tensors.values(), clip_norm, norm)
    return True


def refuse_missing_gradients(tensors: Trainable) -> None:
    """Refuses tensors that a backward pass has not reached.

    Raises:
        ModelError: At least one has no gradient.
    """
    missing = [name for name, p in tensors.items() if p.grad is None]
    if missing:
        raise ModelError(
            Fault(
                what="trainable tensors got no gradient at update 1, so they would not be trained",
                got=name_some(missing),
                expected="a gradient for each of them",
                hint="Take modules that the forward pass does not use out of the targets.",
            )
        )


def with_zero_gradient(tensors: Trainable, *, part: str) -> tuple[str, ...]:
    """Returns the names that contain `part` and have a gradient of exactly zero."""
    chosen = {name: p.grad for name, p in tensors.items() if part in name and p.grad is not None}
    return tuple(name for name, gradient in chosen.items() if not gradient.any())


def name_some(names: list[str] | tuple[str, ...]) -> str:
    """Returns the first names in a row, and how many more there are."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


class Motion:
    """Tells whether an update moved any weight, bit by bit.

    Keeps a copy of the trainable tensors: with an adapter it is small; with full tuning it adds
    a quarter to what weights, gradients and AdamW's two moments take.
    """

    def __init__(self, tensors: Trainable) -> None:
        self._tensors = [parameter.detach() for parameter in tensors.values()]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def happened(self) -> bool:
        """Tells whether a bit has changed since this was last asked, or since the start.

        The comparison ends at the first tensor that moved, which is nearly always the first.
        """
        pairs = zip(self._tensors, self._copies, strict=True)
        if all(torch.equal(_bits(now), _bits(before)) for now, before in pairs):
            return False
        for now, before in zip(self._tensors, self._copies, strict=True):
            before.copy_(now)
        return True


def _bits(tensor: Tensor) -> Tensor:
    return tensor.view(_BITS[tensor.dtype])


def _refuse_shared_storage(tensors: Trainable) -> None:
    names: dict[int, list[str]] = defaultdict(list)
    for name, parameter in tensors.items():
        if not parameter.is_meta and parameter.numel():
            names[parameter.untyped_storage().data_ptr()].append(name)
    shared = [" = ".join(group) for group in names.values() if len(group) > 1]
    if shared:
        raise ModelError(
            Fault(
                what="trainable parameters share storage, so each update would be made twice",
                got=name_some(shared),
                expected="a storage of its own for every trainable parameter",
                hint="Leave one of the tied modules out of the targets.",
            )
        )
