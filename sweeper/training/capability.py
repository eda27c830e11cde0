"""Whether this machine has what the model's options ask for; nothing stands in for what it lacks.

Packages are looked for without importing them: whoever plans a study need not have a GPU.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import torch

from sweeper.errors import Fault, ModelError
from sweeper.training.options import ModelOptions

FLASH = "flash_attention_2"
_BITSANDBYTES = "bitsandbytes"
_FLASH_ATTENTION = "flash-attn"


def refuse_missing_packages(options: ModelOptions) -> None:
    """Refuses quantization and flash attention where the package that does it is not installed.

    Raises:
        ModelError: At least one is not.
    """
    faults = []
    if options.quantization is not None and installed(_BITSANDBYTES) is None:
        faults.append(
            Fault(
                what="quantization needs the package bitsandbytes, which is not installed",
                where="model.quantization",
                got=options.quantization,
                hint="Install it with `pip install sweeper[quantization]`, or leave the key out.",
            )
        )
    if options.attention == FLASH and installed(_FLASH_ATTENTION) is None:
        faults.append(
            Fault(
                what="flash attention needs the package flash-attn, which is not installed",
                where="model.attention",
                got=options.attention,
                expected="one of auto, sdpa, eager",
                hint="Install flash-attn for this torch and CUDA, or choose sdpa.",
            )
        )
    if faults:
        raise ModelError(*faults)


def refuse_missing_device(options: ModelOptions, device: torch.device) -> None:
    """Refuses on another device than a GPU what runs rightly on one alone.

    On a CPU with bfloat16 instructions, bitsandbytes 0.50 packs the weights anew at the first
    forward pass of an evaluation, by a kernel that no gradient passes through; training goes on
    with other gradients and without a word.

    Raises:
        ModelError: At least one is asked for.
    """
    if device.type == "cuda":
        return
    faults = []
    if options.quantization is not None:
        faults.append(
            Fault(
                what="quantization needs an NVIDIA GPU: on a CPU, bitsandbytes loses gradients"
                " after an evaluation",
                where="model.quantization",
                got=f"{options.quantization} on {device.type}",
                hint="Leave the key out.",
            )
        )
    if options.attention == FLASH:
        faults.append(
            Fault(
                what="flash attention needs an NVIDIA GPU",
                where="model.attention",
                got=f"{options.attention} on {device.type}",
                expected="one of auto, sdpa, eager",
            )
        )
    if faults:
        raise ModelError(*faults)


def installed(distribution: str) -> str | None:
    """Returns the version of an installed distribution; None when it is not there."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
