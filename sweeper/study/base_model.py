"""What a trained model's base is called by people elsewhere: a hub id, or nothing at all.

A path means nothing to them, and the name of a folder may be the id of another model on a hub.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from sweeper.training.options import ModelOptions

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""An owner and a name. Old ids without an owner are told from folders' names by nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """The base model as others can find it.

    Attributes:
        hub_id: None where it is not known.
        revision: The commit that was read; None where it is not known.
        is_from_folder: Whether the study read a folder; a hub id is then what its config.json
            says of where it came from, and nothing shows that the weights are still those.
    """

    hub_id: str | None
    revision: str | None
    is_from_folder: bool


def base_model(options: ModelOptions) -> BaseModel:
    """Returns what is known of a trial's base model.

    Args:
        options: As the trial was told: `path` is absolute, or a hub id with its commit.
    """
    if not Path(options.path).is_absolute():
        return BaseModel(hub_id=options.path, revision=options.revision, is_from_folder=False)
    return BaseModel(hub_id=_origin(Path(options.path)), revision=None, is_from_folder=True)


def _origin(folder: Path) -> str | None:
    """Returns the hub id that a model's folder says it came from."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    name = config.get("_name_or_path") if isinstance(config, dict) else None
    if not isinstance(name, str) or not _HUB_ID.fullmatch(name) or ".." in name:
        return None
    return name
