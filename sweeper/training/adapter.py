"""Makes a model trainable: a LoRA adapter through peft, or all of its weights.

What an adapter starts from is a function of the seed and of the modules that it goes on, whatever
was drawn before. A module that is trained whole starts as a copy of the base model's.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from peft import LoraConfig, LoraModel, get_peft_model
from torch import nn
from transformers import PreTrainedModel

from sweeper.errors import Fault, ModelError
from sweeper.training.determinism import seeded
from sweeper.training.misnamed import TARGETS
from sweeper.training.options import LoraOptions
from sweeper.training.targets import Choice, Matches, choose
from sweeper.training.trainable import Trainable, name_some, trainable

_SHORT = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedModel:
    """A model ready to be trained.

    Attributes:
        model: The model; with an adapter, peft's wrapper around it.
        modules: Full names of the adapted modules in the model's order; empty for full tuning.
        saved: Full names of the modules that are trained whole beside an adapter.
        matched: Modules by the setting that means them, for instance `lora.targets: q_proj`.
        tensors: The trainable tensors, audited.
    """

    model: nn.Module
    modules: tuple[str, ...]
    saved: tuple[str, ...] = ()
    matched: Matches = field(default_factory=dict)
    tensors: Trainable


def adapt(model: PreTrainedModel, lora: LoraOptions, *, seed: int) -> AdaptedModel:
    """Puts an adapter on the model (changing it) and freezes everything else.

    Raises:
        ModelError: A name or pattern means nothing, a target cannot carry an adapter, or two
            trainable tensors share storage. All unmatched names come at once.
    """
    choice = choose(model, lora)
    device = next(model.parameters()).device
    with seeded(seed, "adapter", _random_device(device)), _quiet_peft():
        try:
            adapted = get_peft_model(model, _config(lora, choice))
        except (ValueError, TypeError) as error:
            raise ModelError(_refused_by_peft(lora, error)) from error
    tuner = adapted.base_model
    assert isinstance(tuner, LoraModel)
    names = tuple(tuner.targeted_module_names)
    _refuse_others(names, choice.adapted)
    _widen(adapted)
    return AdaptedModel(
        model=adapted,
        modules=names,
        saved=choice.saved,
        matched=choice.matched,
        tensors=trainable(adapted),
    )


def unfreeze(model: nn.Module) -> AdaptedModel:
    """Makes every weight of the model trainable.

    Raises:
        ModelError: Two weights share storage without being one parameter.
    """
    model.requires_grad_(requires_grad=True)
    return AdaptedModel(model=model, modules=(), tensors=trainable(model))


def _config(lora: LoraOptions, choice: Choice) -> LoraConfig:
    """Returns peft's settings; it changes lists and mappings in place, so that it gets copies."""
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # declared whole, but only divided
        lora_dropout=lora.dropout,
        target_modules=lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        use_dora=lora.dora,
        use_rslora=lora.rslora,
        rank_pattern=dict(lora.rank_pattern),
        alpha_pattern=dict(lora.alpha_pattern),
        modules_to_save=list(choice.saved) or None,
        ensure_weight_tying=choice.ties,
        bias="none",
    )


def _widen(model: nn.Module) -> None:
    """Turns what is trained into float32: peft does so with adapters, not with copied modules."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in _SHORT:
            parameter.data = parameter.data.float()


def _refuse_others(found: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    differing = sorted(set(found) ^ set(chosen))
    if differing:
        raise ModelError(
            Fault(
                what="peft adapts other modules than the targets name",
                where=TARGETS,
                got=name_some(differing),
                hint="Name the modules in a list.",
            )
        )


@contextlib.contextmanager
def _quiet_peft() -> Iterator[None]:
    """Keeps warnings back that tell a user nothing.

    peft reads a property that transformers has renamed, and says when it turns a setting of its own
    to what GPT-2's layers need.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to False", UserWarning)
        yield


def _refused_by_peft(lora: LoraOptions, error: Exception) -> Fault:
    return Fault(
        what=f"the adapter cannot be put on: {' '.join(str(error).split())}",
        where=TARGETS,
        got=str(lora.targets),
        hint="Name linear layers.",
    )


def _random_device(device: torch.device) -> torch.device:
    """Returns where initial values are drawn; the meta device draws none."""
    return torch.device("cpu") if device.type == "meta" else device
