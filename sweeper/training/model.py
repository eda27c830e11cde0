"""Loads a causal language model from a checkpoint folder or a hub, or says why it cannot.

Loading never repairs: weights that are missing in the checkpoint would be drawn at random, so they
are refused. Hub access goes through the usual client (HF_TOKEN, HF_HOME, HF_HUB_OFFLINE).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from sweeper.errors import Fault, ModelError
from sweeper.training.options import ModelOptions
from sweeper.training.precision import supports_bfloat16
from sweeper.training.trainable import name_some
from sweeper.training.unbuilt import refuse_model

_WHERE = "model.path"
_CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "*.bin")
_LOADING_ERRORS = (
    OSError,
    ValueError,
    RuntimeError,
    KeyError,
    TypeError,
    ImportError,
    SafetensorError,
)
"""What transformers raises for files that are absent, cut, foreign or not understood."""


def load_model(options: ModelOptions, *, device: torch.device) -> PreTrainedModel:
    """Returns the model on the device, in evaluation mode.

    `dtype: auto` is taken as for an adapter; `precision.settle` resolves it with all it depends on.

    Raises:
        ModelError: It is missing, incomplete, gated, unreadable, or asks for what is not built yet.
    """
    refuse_model(options)
    check_folder(options)
    try:
        model, loading = cast(
            "tuple[PreTrainedModel, Mapping[str, Collection[str]]]",
            AutoModelForCausalLM.from_pretrained(
                options.path,
                dtype=_dtype(options, device),
                output_loading_info=True,
                **_arguments(options),
            ),
        )
    except _LOADING_ERRORS as error:
        raise ModelError(_unreadable(options, error)) from error
    _refuse_missing(options, loading)
    model.to(device)  # type: ignore[arg-type]  # the decorator hides the signature
    return model


def sketch_model(options: ModelOptions) -> PreTrainedModel:
    """Returns the model on the meta device: its shape without a single weight.

    Raises:
        ModelError: As for `load_model`, as far as it shows without reading weights.
    """
    refuse_model(options)
    check_folder(options)
    arguments = _arguments(options)
    attention = arguments.pop("attn_implementation")
    trust = options.trust_remote_code
    try:
        config = AutoConfig.from_pretrained(options.path, **arguments)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                config, trust_remote_code=trust, attn_implementation=attention
            )
    except _LOADING_ERRORS as error:
        raise ModelError(_unreadable(options, error)) from error
    assert isinstance(model, PreTrainedModel)
    return model


def is_folder(path: str) -> bool:
    """Tells whether a model's path means a folder; a hub id is `name` or `owner/name`."""
    return Path(path).is_absolute() or path.startswith(".") or Path(path).is_dir()


def check_folder(options: ModelOptions) -> None:
    """Refuses a folder that is not there or is no checkpoint; hub ids pass.

    Raises:
        ModelError: It is missing, or has no configuration or no weights.
    """
    folder = Path(options.path)
    if not is_folder(options.path):
        return
    if not folder.is_dir():
        raise ModelError(
            Fault(
                what="there is no such model folder",
                where=_WHERE,
                got=options.path,
                expected="a folder with config.json and weights, or a hub id",
                hint="Relative paths are relative to the study file.",
            )
        )
    missing = [] if (folder / _CONFIG).is_file() else [_CONFIG]
    if not any(file for pattern in _WEIGHTS for file in folder.glob(pattern)):
        missing.append("weights (model.safetensors)")
    if missing:
        raise ModelError(
            Fault(
                what=f"the folder is no model checkpoint: it lacks {' and '.join(missing)}",
                where=_WHERE,
                got=options.path,
                hint="Give the folder that save_pretrained wrote.",
            )
        )


def _arguments(options: ModelOptions) -> dict[str, object]:
    attention = None if options.attention == "auto" else options.attention
    arguments: dict[str, object] = {
        "trust_remote_code": options.trust_remote_code,
        "attn_implementation": attention,
    }
    if not is_folder(options.path):
        arguments["revision"] = options.revision
    return arguments


def _dtype(options: ModelOptions, device: torch.device) -> torch.dtype:
    if options.dtype == "auto":
        return torch.bfloat16 if supports_bfloat16(device) else torch.float32
    return torch.bfloat16 if options.dtype == "bfloat16" else torch.float32


def _refuse_missing(options: ModelOptions, loading: Mapping[str, Collection[str]]) -> None:
    missing = sorted(loading["missing_keys"])
    if missing:
        raise ModelError(
            Fault(
                what="the checkpoint lacks weights, which would be drawn at random",
                where=_WHERE,
                got=f"{options.path} without {name_some(missing)}",
                expected="every weight of the model",
                hint="Give the checkpoint of a causal language model.",
            )
        )


def _unreadable(options: ModelOptions, error: Exception) -> Fault:
    """Words the failure: the library's message, shortened, and what usually helps."""
    text = " ".join(str(error).split())
    if is_folder(options.path):
        hint = "Check that the files are complete and of a causal language model."
    elif "gated" in text or "401" in text or "403" in text:
        hint = "Accept the model's terms on the hub and set HF_TOKEN."
    else:
        hint = "Check the id and the revision; offline, the model must be in the cache (HF_HOME)."
    return Fault(
        what=f"the model cannot be loaded: {type(error).__name__}: {text[:300]}",
        where=_WHERE,
        got=options.path if is_folder(options.path) else f"{options.path} at {options.revision}",
        hint=hint,
    )
