"""What a stop condition leaves for whoever asks why: one folder, whole, that replays start from.

`anomaly.json` names the window's records and micro-batches, each tensor's norms, the first values
that are not finite, and the checkpoint before; `tokens.safetensors` holds what the model was given.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from sweeper.files import bring_to_disk, bring_tree_to_disk
from sweeper.records import Artifact, Resumed, Stop
from sweeper.training.checkpoint import newest_valid
from sweeper.training.folder_digest import folder_digest
from sweeper.training.tried import Tried
from sweeper.training.window import Window

ANOMALY = "anomaly.json"
TOKENS = "tokens.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """The last valid checkpoint of a trial, as it is named in the evidence.

    Attributes:
        path: In the attempt's folder; absolute when it is another attempt's, which this one went on
            from. None: there is none.
        window: The last window that it holds.
        nonfinite_weights: Names of tensors in it that hold values which are not finite: what went
            wrong had begun before.
        passed_over: A sentence for each newer one that is not valid.
    """

    path: str | None = None
    window: int = 0
    sha256: str | None = None
    nonfinite_weights: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


def last_checkpoint(root: Path | None, resumed: Resumed | None) -> LastCheckpoint:
    """Returns the newest valid checkpoint that the attempt made, else the one it went on from.

    Args:
        root: Folder of the attempt's checkpoints.
        resumed: What it went on from.
    """
    found, complaints = (None, []) if root is None else newest_valid(root)
    if root is not None and found is not None:
        return LastCheckpoint(
            path=f"{root.name}/{found.folder.name}",
            window=found.window,
            sha256=found.sha256,
            nonfinite_weights=found.snapshot.nonfinite_weights,
            passed_over=tuple(complaints),
        )
    if resumed is None:
        return LastCheckpoint(passed_over=tuple(complaints))
    return LastCheckpoint(
        path=resumed.checkpoint,
        window=resumed.after_window,
        sha256=resumed.sha256,
        passed_over=tuple(complaints),
    )


def write_evidence(
    folder: Path,
    stop: Stop,
    tried: Tried | None,
    *,
    scaler: Mapping[str, float | int],
    checkpoint: LastCheckpoint,
) -> Artifact:
    """Writes the evidence, or nothing.

    Args:
        folder: Must not exist yet.
        tried: The window after which the condition fired; None when no window came before.
        scaler: State of the loss scaling after that window; empty without it.
        checkpoint: The last one before, which is named.

    Raises:
        OSError: It cannot be written; nothing is left.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        text = json.dumps(_anomaly(stop, tried, scaler, checkpoint), indent=1, allow_nan=False)
        (partial / ANOMALY).write_text(text, encoding="utf-8")
        if tried is not None:
            save_file(_tokens(tried.window), partial / TOKENS)
        bring_tree_to_disk(partial)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    bring_to_disk(folder.parent)
    return Artifact(kind="evidence", path=folder.name, sha256=folder_digest(folder))


def _anomaly(
    stop: Stop,
    tried: Tried | None,
    scaler: Mapping[str, float | int],
    checkpoint: LastCheckpoint,
) -> dict[str, object]:
    named = dataclasses.asdict(checkpoint)
    facts: dict[str, object] = {
        "stop": _plain(dataclasses.asdict(stop)),
        "passed_over": named.pop("passed_over"),
        "checkpoint": None if checkpoint.path is None else named,
        "scaler": _plain(scaler),
    }
    if tried is None:
        return facts
    window = tried.window
    return facts | {
        "window": window.index,
        "first_record": window.first_record,
        "learning_rate": tried.learning_rate,
        "loss": _number(tried.loss),
        "loss_scale": _number(tried.loss_scale),
        "gradient_norm": _number(tried.gradient_norm),
        "clipped": tried.clipped,
        "skip": tried.skip,
        "records": _records(tried),
        "micro_batches": [_number(loss) for loss in tried.loss_sums],
        "first_nonfinite": _first_nonfinite(tried),
        "tensors": [_plain(dataclasses.asdict(tensor)) for tensor in tried.tensors],
    }


def _records(tried: Tried) -> list[dict[str, object]]:
    return [
        {
            "record": document.record,
            "digest": document.digest,
            "group": document.group,
            "tokens": document.tokens,
            "target_tokens": targets,
            "row": row,
        }
        for row, example in enumerate(tried.window.examples, start=1)
        for document, targets in zip(example.documents, example.targets_by_document, strict=True)
    ]


def _first_nonfinite(tried: Tried) -> dict[str, object]:
    losses = enumerate(tried.loss_sums, start=1)
    return {
        "micro_batch": next((place for place, x in losses if not math.isfinite(x)), None),
        "gradient": next((t.name for t in tried.tensors if t.nonfinite_gradients), None),
        "weight": next((t.name for t in tried.tensors if t.nonfinite_weights), None),
    }


def _tokens(window: Window) -> dict[str, torch.Tensor]:
    tensors = {}
    for row, example in enumerate(window.examples):
        tensors[f"token_ids/{row:06d}"] = torch.from_numpy(example.token_ids.copy())
        tensors[f"supervised/{row:06d}"] = torch.from_numpy(example.supervised.copy())
    return tensors


def _plain(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: _number(value) for name, value in facts.items()}


def _number(value: object) -> object:
    """Returns what JSON knows: a number that is not finite as its name."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
