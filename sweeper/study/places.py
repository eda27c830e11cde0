"""Where a study's model and records are: relative paths become absolute, hub ids stay."""

from __future__ import annotations

from pathlib import Path

from sweeper.data.options import DataOptions
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.study.schema import Study
from sweeper.training.options import ModelOptions

_PARTS = ("train", "validation", "source", "test", "retention")


def prepare_request(study: Study, folder: Path) -> PrepareRequest:
    """Returns what the preparing child is asked, all paths absolute.

    Args:
        folder: What relative paths in the study are relative to.
    """
    model = resolved_model(study, folder)
    source = ModelSource(
        path=model.path, revision=model.revision, trust_remote_code=model.trust_remote_code
    )
    return PrepareRequest(model=source, data=_resolved_data(study.data, folder))


def resolved_model(study: Study, folder: Path, *, commit: str | None = None) -> ModelOptions:
    """Returns the model's options with its absolute path, or with a hub id's resolved commit."""
    if commit is not None:
        return study.model.model_copy(update={"revision": commit})
    return study.model.model_copy(update={"path": _model_path(study.model.path, folder)})


def _model_path(path: str, folder: Path) -> str:
    """Returns the absolute path of a local folder; a hub id is one that looks like no path."""
    local = absolute(path, folder)
    looks_local = path.startswith((".", "/", "~"))
    return str(local) if looks_local or local.exists() else path


def _resolved_data(data: DataOptions, folder: Path) -> DataOptions:
    changed: dict[str, object] = {}
    for part in _PARTS:
        source = getattr(data, part)
        if source is not None and source.path is not None:
            path = str(absolute(source.path, folder))
            changed[part] = source.model_copy(update={"path": path})
    if data.chat_template is not None:
        changed["chat_template"] = str(absolute(data.chat_template, folder))
    return data.model_copy(update=changed)


def absolute(path: str, folder: Path) -> Path:
    """Returns the place that a path in a study file means, the file being in `folder`."""
    return (folder / Path(path).expanduser()).resolve()
