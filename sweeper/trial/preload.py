"""What a trial loads before it does anything, loaded once for all trials of a slot.

A fork takes along the one thread that forks, and neither the locks that others held nor a GPU
that was in use: nothing here may compute, start a thread or touch a device.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd  # noqa: F401 - pyarrow loads it when it is first used
import peft.utils.transformers_weight_conversion  # noqa: F401 - as peft does, later
import torch
from huggingface_hub import try_to_load_from_cache
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PreTrainedConfig

import sweeper.trial.attempt  # noqa: F401 - it and all it loads are the point
from sweeper.training.options import ModelOptions

_THREADS = Path("/proc/self/task")
_OPEN_FILES = Path("/proc/self/fd")
_DRIVER = "/dev/nvidia"
_CONFIG = "config.json"


def load_architecture(model: ModelOptions) -> None:
    """Imports the module that the model is made of; reads its configuration and no weights.

    A model whose configuration is not on this host's disk, or brings its own code, is left to
    the trial.
    """
    folder = Path(model.path)
    if not folder.is_dir():
        found = try_to_load_from_cache(model.path, _CONFIG, revision=model.revision)
        if not isinstance(found, str):
            return
        folder = Path(found).parent
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError):  # the trial says what is wrong with it
        return
    assert isinstance(config, PreTrainedConfig)
    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]  # it imports what is asked for


def why_unfit() -> str | None:
    """Returns why forks of this process would not be sound, or None."""
    threads = [task / "comm" for task in _THREADS.iterdir()]
    if len(threads) > 1:
        names = sorted(thread.read_text("utf-8").strip() for thread in threads)
        return f"loading its libraries left {len(threads)} threads ({', '.join(names)})"
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if in_use or _holds_a_gpu():
        return "loading its libraries put a GPU to use"
    return None


def _holds_a_gpu() -> bool:
    """Says whether the driver was opened, by torch or behind its back."""
    return any(_target(file).startswith(_DRIVER) for file in _OPEN_FILES.iterdir())


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:  # the listing's own descriptor is closed by now
        return ""
