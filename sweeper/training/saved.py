"""Puts saved weights back into a model: what `saving` left, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from sweeper.errors import Fault, ModelError
from sweeper.training.adapter import AdaptedModel
from sweeper.training.trainable import name_some

_ADAPTER_WEIGHTS = "adapter_model.safetensors"


def load_saved_adapter(adapted: AdaptedModel, folder: Path) -> None:
    """Gives the adapter the weights of a saved one, made with the same settings.

    Raises:
        ModelError: The file cannot be read, or it is not an adapter for these modules.
    """
    assert isinstance(adapted.model, PeftModel), "full fine-tuning saves whole models"
    file = folder / _ADAPTER_WEIGHTS
    try:
        saved = load_file(file)
    except (OSError, SafetensorError) as error:
        what = f"the saved adapter cannot be read: {error}"
        raise ModelError(Fault(what=what, where=str(file))) from error
    present = _state(adapted.model)
    strange = saved.keys() ^ present.keys()
    if not strange:
        set_peft_model_state_dict(adapted.model, saved)
        loaded = _state(adapted.model)
        strange = {name for name in saved if not _is_same(loaded[name], saved[name])}
    if strange:
        what = "the saved adapter is not one for this model and these settings"
        raise ModelError(Fault(what=what, where=str(file), got=name_some(sorted(strange))))


def _state(model: PeftModel) -> Mapping[str, Tensor]:
    state: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return state


def _is_same(loaded: Tensor, saved: Tensor) -> bool:
    return loaded.shape == saved.shape and torch.equal(loaded.detach().cpu(), saved)
