"""Makes a model trainable: a LoRA adapter through peft, or all of its weights.

peft is content when one of several target names matches, and looks past the others; here every name
must match. What an adapter starts from is a function of the seed alone, whatever was drawn before.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from peft import LoraConfig, LoraModel, get_peft_model
from torch import nn
from transformers import PreTrainedModel

from sweeper.errors import Fault, ModelError, nearest
from sweeper.training.determinism import seeded
from sweeper.training.options import LoraOptions
from sweeper.training.trainable import Trainable, name_some, trainable
from sweeper.training.unbuilt import refuse_lora

ALL_LINEAR = "all-linear"
_WHERE = "lora.targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedModel:
    """A model ready to be trained.

    Attributes:
        model: The model; with an adapter, peft's wrapper around it.
        modules: Full names of the adapted modules in the model's order; empty for full tuning.
        tensors: The trainable tensors, audited.
    """

    model: nn.Module
    modules: tuple[str, ...]
    tensors: Trainable


def adapt(model: PreTrainedModel, lora: LoraOptions, *, seed: int) -> AdaptedModel:
    """Puts an adapter on the model (changing it) and freezes everything else.

    Raises:
        ModelError: A target matches nothing or cannot carry an adapter, two trainable tensors
            share storage, or a setting is not built yet. All unmatched names come at once.
    """
    refuse_lora(lora)
    check_targets(model, lora.targets)
    device = next(model.parameters()).device
    with seeded(seed, "adapter", _random_device(device)), _quiet_peft():
        try:
            adapted = get_peft_model(model, _config(lora))
        except ValueError as error:
            raise ModelError(_refused_by_peft(lora, error)) from error
    tuner = adapted.base_model
    assert isinstance(tuner, LoraModel)
    names = tuple(tuner.targeted_module_names)
    return AdaptedModel(model=adapted, modules=names, tensors=trainable(adapted))


def unfreeze(model: nn.Module) -> AdaptedModel:
    """Makes every weight of the model trainable.

    Raises:
        ModelError: Two weights share storage without being one parameter.
    """
    model.requires_grad_(requires_grad=True)
    return AdaptedModel(model=model, modules=(), tensors=trainable(model))


def check_targets(model: nn.Module, targets: str | tuple[str, ...]) -> None:
    """Refuses targets that match no module: each name of a list, or a pattern as a whole.

    Raises:
        ModelError: With one fault for each.
    """
    names = {name: module for name, module in model.named_modules() if name}
    if targets == ALL_LINEAR:
        return
    if isinstance(targets, str):
        faults = _pattern_faults(targets, names)
    else:
        faults = _name_faults(targets, names)
    if faults:
        raise ModelError(*faults)


def _name_faults(targets: tuple[str, ...], modules: Mapping[str, nn.Module]) -> list[Fault]:
    if not targets:
        return [Fault(what="the list of targets is empty", where=_WHERE, expected="module names")]
    unmatched = [t for t in targets if not any(_is_named(name, t) for name in modules)]
    return [_unmatched_name(target, modules) for target in unmatched]


def _is_named(module: str, target: str) -> bool:
    """Tells whether a listed name means this module: its full name or the end of it, in whole."""
    return module == target or module.endswith(f".{target}")


def _unmatched_name(target: str, modules: Mapping[str, nn.Module]) -> Fault:
    ends = _last_parts(name for name, module in modules.items() if _is_linear(module))
    close = nearest(target, ends) if "." not in target else nearest(target, modules)
    if re.escape(target).replace(r"\.", ".") != target and "-" not in target:
        hint = "A list holds names; write a pattern as a string instead of a list."
    else:
        hint = f"Did you mean {close}?" if close else "Use names from the list."
    return Fault(
        what="the target matches no module of the model",
        where=_WHERE,
        got=target,
        expected=f"one of {', '.join(ends)}",
        hint=hint,
    )


def _pattern_faults(pattern: str, modules: Mapping[str, nn.Module]) -> list[Fault]:
    try:
        matched = [name for name in modules if re.fullmatch(pattern, name)]
    except re.error as error:
        return [
            Fault(
                what=f"the target pattern is no regular expression: {error}",
                where=_WHERE,
                got=pattern,
            )
        ]
    if matched:
        return []
    linear = [name for name, module in modules.items() if _is_linear(module)]
    return [
        Fault(
            what="the target pattern matches no module of the model",
            where=_WHERE,
            got=pattern,
            expected=f"a regular expression for whole names such as {name_some(linear[:2])}",
            hint=f"Write {_suggest(pattern, linear)}.",
        )
    ]


def _suggest(pattern: str, linear: list[str]) -> str:
    """Returns a list of names when the pattern is made of them, else a pattern that would match."""
    ends = _last_parts(linear)
    parts = re.findall(r"[a-z_0-9]+", pattern)
    wanted = [part for part in parts if part in ends]
    if wanted:
        return rf"`.*\.({'|'.join(wanted)})`, or the list [{', '.join(wanted)}]"
    return f"the names as a list, out of {', '.join(ends)}"


def _last_parts(names: Iterable[str]) -> list[str]:
    """Returns the last parts of dotted names, each once, in order."""
    return list(dict.fromkeys(name.rpartition(".")[2] for name in names))


def _is_linear(module: nn.Module) -> bool:
    """Tells whether it is what targets usually mean; `Conv1D` is the linear layer of GPT-2."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


@contextlib.contextmanager
def _quiet_peft() -> Iterator[None]:
    """Keeps two warnings back that tell a user nothing.

    peft reads a property that transformers has renamed, and says when it turns a setting of its own
    to what GPT-2's layers need.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to False", UserWarning)
        yield


def _refused_by_peft(lora: LoraOptions, error: ValueError) -> Fault:
    return Fault(
        what=f"the adapter cannot be put on: {' '.join(str(error).split())}",
        where=_WHERE,
        got=str(lora.targets),
        hint="Name linear layers.",
    )


def _config(lora: LoraOptions) -> LoraConfig:
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # declared whole, but only divided
        lora_dropout=lora.dropout,
        target_modules=lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        bias="none",
    )


def _random_device(device: torch.device) -> torch.device:
    """Returns where initial values are drawn; the meta device draws none."""
    return torch.device("cpu") if device.type == "meta" else device
