"""Loads a causal language model from a checkpoint folder or a hub, or says why it cannot.

Loading never repairs: weights that are missing in the checkpoint would be drawn at random, so they
are refused. Hub access goes through the usual client (HF_TOKEN, HF_HOME, HF_HUB_OFFLINE).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from sweeper.errors import Fault, ModelError
from sweeper.training.capability import FLASH, refuse_missing_device, refuse_missing_packages
from sweeper.training.hub import refusal
from sweeper.training.options import ModelOptions
from sweeper.training.precision import supports_bfloat16
from sweeper.training.quantization import quantization_arguments, refuse_quantized
from sweeper.training.trainable import name_some

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
        ModelError: It is missing, incomplete, gated, unreadable, quantized already, or asks for
            what this machine does not have.
    """
    refuse_missing_packages(options)
    refuse_missing_device(options, device)
    check_folder(options)
    _read_config(options)
    dtype = _dtype(options, device)
    try:
        model, loading = cast(
            "tuple[PreTrainedModel, Mapping[str, Collection[Any]]]",
            AutoModelForCausalLM.from_pretrained(
                options.path,
                dtype=dtype,
                attn_implementation=_attention(options),
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                **_arguments(options),
                **quantization_arguments(options, dtype=dtype, device=device),
            ),
        )
    except _LOADING_ERRORS as error:
        raise ModelError(_unreadable(options, error)) from error
    _refuse_other_shapes(options, loading)
    _refuse_missing(options, loading)
    if options.quantization is None:
        model.to(device)  # type: ignore[arg-type]  # the decorator hides the signature
    return model


def sketch_model(options: ModelOptions) -> PreTrainedModel:
    """Returns the model on the meta device: its shape without a single weight.

    Raises:
        ModelError: As for `load_model`, as far as it shows without weights and without a GPU.
    """
    refuse_missing_packages(options)
    check_folder(options)
    config = _read_config(options)
    attention = None if options.attention == FLASH else _attention(options)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                config,
                trust_remote_code=options.trust_remote_code,
                attn_implementation=attention,
            )
    except _LOADING_ERRORS as error:
        raise ModelError(_unreadable(options, error)) from error
    assert isinstance(model, PreTrainedModel)
    return model


def _read_config(options: ModelOptions) -> PreTrainedConfig:
    try:
        config = AutoConfig.from_pretrained(options.path, **_arguments(options))
    except _LOADING_ERRORS as error:
        raise ModelError(_unreadable(options, error)) from error
    assert isinstance(config, PreTrainedConfig)
    refuse_quantized(config, _WHERE)
    return config


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
    arguments: dict[str, object] = {"trust_remote_code": options.trust_remote_code}
    if not is_folder(options.path):
        arguments["revision"] = options.revision
    return arguments


def _attention(options: ModelOptions) -> str | None:
    return None if options.attention == "auto" else options.attention


def _dtype(options: ModelOptions, device: torch.device) -> torch.dtype:
    if options.dtype == "auto":
        return torch.bfloat16 if supports_bfloat16(device) else torch.float32
    return torch.bfloat16 if options.dtype == "bfloat16" else torch.float32


def _refuse_other_shapes(options: ModelOptions, loading: Mapping[str, Collection[Any]]) -> None:
    """Refuses weights that do not fit the configuration, for instance of a resized vocabulary."""
    differing = [
        f"{name} {list(found)} instead of {list(expected)}"
        for name, found, expected in sorted(loading["mismatched_keys"])
    ]
    if differing:
        raise ModelError(
            Fault(
                what="the checkpoint's weights have other shapes than its config.json says",
                where=_WHERE,
                got=f"{options.path} with {name_some(differing)}",
                hint="After its vocabulary was resized, save the whole model: save_pretrained.",
            )
        )


def _refuse_missing(options: ModelOptions, loading: Mapping[str, Collection[Any]]) -> None:
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
    """Words the failure: what the hub refused, or the library's message, shortened."""
    if is_folder(options.path):
        what = f"the model cannot be loaded: {_shortened(error)}"
        hint = "Check that the files are complete and of a causal language model."
        return Fault(what=what, where=_WHERE, got=options.path, hint=hint)
    what, hint = refusal(error) or (
        f"the model cannot be loaded: {_shortened(error)}",
        "Check the id and the revision.",
    )
    got = f"{options.path} at {options.revision}"
    return Fault(what=what, where=_WHERE, got=got, hint=hint)


def _shortened(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
