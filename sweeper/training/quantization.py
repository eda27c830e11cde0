"""Base weights in four bits, frozen, through bitsandbytes: the NF4 format of QLoRA.

Linear layers but the head are quantized; everything else stays in the declared dtype, which is also
what the four bits are turned back into for every product. peft's preparation for such models is
not used: it casts norms, embeddings and head to float32 unasked, so that the model would no longer
be of the dtype that the study names.

Source: Dettmers et al., QLoRA, 2023, section 3.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import BitsAndBytesConfig, PreTrainedConfig

from sweeper.errors import Fault, ModelError
from sweeper.training.options import ModelOptions


def quantization_arguments(
    options: ModelOptions, *, dtype: torch.dtype, device: torch.device
) -> dict[str, object]:
    """Returns what loading is told beyond the usual; nothing without quantization.

    Quantized weights cannot be moved afterwards, so that the device belongs here.
    """
    if options.quantization is None:
        return {}
    config = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
    )
    return {"quantization_config": config, "device_map": {"": device}}


def quantization_of(model: nn.Module) -> str | None:
    """Returns the format of a loaded model's quantized weights; None when it has none."""
    config = getattr(getattr(model, "config", None), "quantization_config", None)
    if config is None:
        return None
    return str(config.bnb_4bit_quant_type)


def refuse_quantized(config: PreTrainedConfig, where: str) -> None:
    """Refuses a checkpoint whose weights are quantized already.

    Raises:
        ModelError: They are.
    """
    found = getattr(config, "quantization_config", None)
    if found is None:
        return
    method = found.get("quant_method") if isinstance(found, dict) else found.quant_method
    raise ModelError(
        Fault(
            what="the checkpoint's weights are quantized already",
            where=where,
            got=str(method),
            expected="weights in float32 or bfloat16",
            hint="Give the original checkpoint; `model.quantization: nf4` quantizes it on loading.",
        )
    )
