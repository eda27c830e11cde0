"""Saves the final adapter or model, whole or not at all.

The files are written into a sibling folder under a temporary name, brought to the disk, and renamed
in one stroke. What a kill leaves under the temporary name is cleared by the next save.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel

from sweeper.files import bring_to_disk, bring_tree_to_disk
from sweeper.records import Artifact
from sweeper.training.folder_digest import folder_digest

_ADAPTER_CONFIG = "adapter_config.json"
_CONFIGS = frozenset({_ADAPTER_CONFIG, "config.json"})
"""One of them is in every saved folder."""


def save(model: nn.Module, folder: Path, *, tokenizer: Path | None) -> Artifact:
    """Saves in peft's or transformers' format, the tokenizer's files beside the weights.

    Args:
        model: As trained; with an adapter, only the adapter is saved.
        folder: Must not exist yet. The artifact's path is its name.
        tokenizer: Folder whose files are copied; None: none.

    Raises:
        FileExistsError: The folder exists.
        OSError: It cannot be written, for instance because the disk is full; nothing is left.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists already; an attempt never writes twice")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        kind = _write(model, partial)
        if tokenizer is not None:
            shutil.copytree(tokenizer, partial, dirs_exist_ok=True)
        _share_alike(partial)
        bring_tree_to_disk(partial)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    bring_to_disk(folder.parent)
    return Artifact(kind=kind, path=folder.name, sha256=folder_digest(folder))


def _write(model: nn.Module, folder: Path) -> str:
    folder.mkdir(parents=True)
    if isinstance(model, PeftModel):
        # embeddings are frozen here; "auto" would ask a hub whether the vocabulary was resized
        model.save_pretrained(str(folder), save_embedding_layers=False)
        _sort_targets(folder / _ADAPTER_CONFIG)
        return "adapter"
    assert isinstance(model, PreTrainedModel)
    model.save_pretrained(str(folder))
    return "model"


def _sort_targets(config: Path) -> None:
    """Rewrites peft's set of targets in order, which otherwise varies with the hash seed."""
    entries = json.loads(config.read_text(encoding="utf-8"))
    if isinstance(entries["target_modules"], list):
        entries["target_modules"] = sorted(entries["target_modules"])
    config.write_text(json.dumps(entries, indent=2, sort_keys=True), encoding="utf-8")


def _share_alike(folder: Path) -> None:
    """Gives every file the access of the configuration; safetensors writes for the owner alone."""
    (config,) = (file for file in _files(folder) if file.name in _CONFIGS)
    for file in _files(folder):
        shutil.copymode(config, file)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
