"""What a trial ran on, by field name: recorded per attempt and compared within a seed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version

import torch
from torch import nn

from sweeper.training.capability import FLASH, installed
from sweeper.training.host import cpu_name, switches
from sweeper.training.options import TrainingOptions
from sweeper.training.precision import base_dtype, resolve_precision
from sweeper.training.quantization import quantization_of


def describe_environment(
    model: nn.Module, training: TrainingOptions, *, micro_batch: int, ranks: int = 1
) -> Mapping[str, str]:
    """Returns the fields for a loaded model; a field that does not apply is left out.

    Optimizers hold their moments in the dtype of the tensors that they move.
    """
    device = next(model.parameters()).device
    config = getattr(model, "config", None)
    attention = getattr(config, "_attn_implementation", None)
    quantization = quantization_of(model)
    precision = resolve_precision(training.precision, model)
    trained = _trained_in(model)
    fields: dict[str, str | None] = {
        "device": device_name(device),
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "peft": version("peft"),
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "threads": str(torch.get_num_threads()),
        "micro_batch": str(micro_batch),
        "ranks": str(ranks),
        "deterministic": _yes_no(torch.are_deterministic_algorithms_enabled()),
        "tf32": _yes_no(torch.backends.cuda.matmul.allow_tf32),
        "dtype": _name(base_dtype(model)),
        "quantization": quantization,
        "bitsandbytes": quantization and installed("bitsandbytes"),
        "trainable_dtype": trained,
        "optimizer_dtype": trained,
        "precision": precision,
        "loss_scaling": _yes_no(precision == "float16"),
        "attention": attention,
        "flash_attention": installed("flash-attn") if attention == FLASH else None,
    }
    fields |= switches()
    return {name: text for name, text in fields.items() if text is not None}


def device_name(device: torch.device) -> str:
    """Returns the GPU's model, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _trained_in(model: nn.Module) -> str:
    return ", ".join(sorted({_name(p.dtype) for p in model.parameters() if p.requires_grad}))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _yes_no(flag: bool) -> str:
    return "yes" if flag else "no"
