"""Gradient checkpointing: layers' activations are computed again instead of kept."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from sweeper.errors import Fault, ModelError


def recompute_activations(model: nn.Module) -> None:
    """Makes every layer keep its input alone and run again in the backward pass.

    Gradients stay what they are to the bit, dropout included: each layer's random state is put back
    before it runs again. The non-reentrant kind is used, which needs no input that requires a
    gradient, so that an adapter in the first layer is reached too.

    Raises:
        ModelError: The architecture cannot do so.
    """
    base = getattr(model, "get_base_model", lambda: model)()
    if not (isinstance(base, PreTrainedModel) and base.supports_gradient_checkpointing):
        raise ModelError(
            Fault(
                what="the architecture does not support gradient checkpointing",
                where="training.gradient_checkpointing",
                got=type(base).__name__,
                hint="Leave the key out and lower run.micro_batch instead.",
            )
        )
    # transformers renamed it within version 5; the first argument is the same
    enable = getattr(base, "activation_checkpointing_enable", base.gradient_checkpointing_enable)
    enable({"use_reentrant": False, "preserve_rng_state": True})
