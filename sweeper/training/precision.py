"""Which numbers training computes with, and which combinations are refused.

`dtype` is what the base weights are held in; `precision` is the autocast over them. Trainable
tensors are always float32, so that small updates are not rounded away. float64 throughout serves
reference tests. `auto` as dtype means bfloat16 where a GPU computes it in hardware and a frozen
base leaves room for it (an adapter, under precision auto or bfloat16), else float32; a CPU takes
float32, because most emulate bfloat16 slowly. `auto` as precision means the base weights' dtype.

float16 is an autocast over float32 weights, with loss scaling, and never a dtype of weights: its
smallest number is 2**-24, so small gradients and updates would be lost. Quantized weights are
frozen, and count as weights of the dtype that they are turned back into.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Literal

import torch
from torch import nn

from sweeper.errors import Fault, ModelError
from sweeper.training.options import ModelOptions, Precision, TrainingOptions

ResolvedPrecision = Literal["float32", "bfloat16", "float16", "float64"]
ResolvedDtype = Literal["float32", "bfloat16"]

_NAMES: tuple[tuple[torch.dtype, ResolvedPrecision], ...] = (
    (torch.float32, "float32"),
    (torch.bfloat16, "bfloat16"),
    (torch.float64, "float64"),
)
"""The dtypes that weights may have, and the precision that `auto` makes of each."""

_AUTOCAST = MappingProxyType({"bfloat16": torch.bfloat16, "float16": torch.float16})

_TF32_CAPABILITY = (8, 0)
"""The first compute capability with TF32: Ampere."""


def settle(
    model: ModelOptions,
    training: TrainingOptions,
    *,
    tune: Literal["lora", "full"],
    device: torch.device,
) -> tuple[ModelOptions, TrainingOptions]:
    """Returns the options with `auto` replaced by what it means on this device.

    Raises:
        ModelError: The combination of dtype, precision and tuning is refused.
    """
    dtype = _resolve_dtype(model.dtype, training.precision, tune=tune, device=device)
    precision = dtype if training.precision == "auto" else training.precision
    if dtype == "bfloat16" and tune == "full":
        raise ModelError(_refusal("model.dtype", "bfloat16 weights with tune: full", "float32"))
    _check(torch.bfloat16 if dtype == "bfloat16" else torch.float32, precision)
    faults = [
        fault
        for fault in (
            _unquantizable(model, tune),
            _unscaled(precision, device),
            _without_tf32(training, device),
            _unattended(model, precision),
        )
        if fault is not None
    ]
    if faults:
        raise ModelError(*faults)
    return (
        model.model_copy(update={"dtype": dtype}),
        training.model_copy(update={"precision": precision}),
    )


def resolve_precision(asked: Precision, model: nn.Module) -> ResolvedPrecision:
    """Returns the precision that a loaded model trains in.

    Raises:
        ModelError: The model's weights do not allow it.
    """
    dtype = base_dtype(model)
    return _check(dtype, dict(_NAMES)[dtype] if asked == "auto" else asked)


def base_dtype(model: nn.Module) -> torch.dtype:
    """Returns the dtype of the frozen weights, or of all weights where none is frozen.

    Some architectures keep a few tensors of a bfloat16 model in float32; it counts as bfloat16.

    Raises:
        ModelError: They are of another dtype, or of several.
    """
    floating = [p for p in model.parameters() if p.is_floating_point()]
    frozen = [p for p in floating if not p.requires_grad]
    dtypes = {parameter.dtype for parameter in frozen or floating}
    if dtypes == {torch.bfloat16, torch.float32}:
        return torch.bfloat16
    if len(dtypes) != 1 or not dtypes <= {dtype for dtype, _ in _NAMES}:
        found = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise ModelError(
            Fault(
                what="the model's weights cannot be trained in this form",
                where="model.dtype",
                got=found,
                expected="all of float32, or all of bfloat16",
            )
        )
    return dtypes.pop()


def supports_bfloat16(device: torch.device) -> bool:
    """Tells whether the device computes bfloat16 in hardware; see above for CPUs."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(precision: ResolvedPrecision, device: torch.device) -> AbstractContextManager[object]:
    """Returns the context that forward passes run in."""
    if precision in _AUTOCAST:
        return torch.autocast(device.type, dtype=_AUTOCAST[precision])
    return contextlib.nullcontext()


def trainable_dtype(precision: ResolvedPrecision) -> torch.dtype:
    """Returns the dtype that trainable tensors have."""
    return torch.float64 if precision == "float64" else torch.float32


def _resolve_dtype(
    asked: Literal["auto", "float32", "bfloat16"],
    precision: Precision,
    *,
    tune: Literal["lora", "full"],
    device: torch.device,
) -> ResolvedDtype:
    if asked != "auto":
        return asked
    allows = tune == "lora" and precision in {"auto", "bfloat16"}
    return "bfloat16" if allows and supports_bfloat16(device) else "float32"


def _check(dtype: torch.dtype, precision: Precision) -> ResolvedPrecision:
    """Returns the precision if base weights of this dtype allow it."""
    match precision:
        case "bfloat16" if dtype in {torch.float32, torch.bfloat16}:
            return "bfloat16"
        case "float32" if dtype == torch.float32:
            return "float32"
        case "float64" if dtype == torch.float64:
            return "float64"
        case "float16" if dtype == torch.float32:
            return "float16"
        case _:
            name = str(dtype).removeprefix("torch.")
            raise ModelError(_refusal("training.precision", f"{precision} over {name}", name))


def _unquantizable(model: ModelOptions, tune: Literal["lora", "full"]) -> Fault | None:
    if model.quantization is None or tune == "lora":
        return None
    return Fault(
        what="quantized weights cannot be trained, only an adapter over them",
        where="model.quantization",
        got=f"{model.quantization} with tune: full",
        expected="tune: lora",
    )


def _unscaled(precision: str, device: torch.device) -> Fault | None:
    if precision != "float16" or device.type == "cuda":
        return None
    return Fault(
        what="float16 is for GPUs: a CPU computes it through float32, slower and less exactly",
        where="training.precision",
        got=f"float16 on {device.type}",
        expected="float32 or bfloat16",
    )


def _without_tf32(training: TrainingOptions, device: torch.device) -> Fault | None:
    if not training.tf32 or _has_tf32(device):
        return None
    return Fault(
        what="TF32 is asked for where there is none",
        where="training.tf32",
        got=f"true on {device.type}",
        expected="an NVIDIA GPU of compute capability 8.0 or newer",
        hint="Leave the key out.",
    )


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= _TF32_CAPABILITY


def _unattended(model: ModelOptions, precision: str) -> Fault | None:
    if model.attention != "flash_attention_2" or precision in _AUTOCAST:
        return None
    return Fault(
        what="flash attention computes in sixteen bits only",
        where="model.attention",
        got=f"flash_attention_2 with precision {precision}",
        expected="training.precision: bfloat16 or float16",
    )


def _refusal(where: str, got: str, expected: str) -> Fault:
    return Fault(
        what="this combination of dtype and precision is refused",
        where=where,
        got=got,
        expected=expected,
        hint="Trainable tensors are float32; bfloat16 is for frozen weights and for autocast,"
        " float16 for autocast over float32 weights.",
    )
