"""What preparing read besides the records: the model's files, and a chat template.

They are stamped when the data are prepared, so that a later run notices another model under the
same path. Size and time of the model's files are compared, contents only where those differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sweeper.data.identity import model_digest
from sweeper.data.manifest import Manifest, file_sha256
from sweeper.data.request import PrepareRequest
from sweeper.errors import Fault
from sweeper.options import Options

WAY_ON = (
    "Put it back, or run another study: `--as NEW-NAME`, or `--replace` while no trial has ended."
)


class Inputs(Options):
    """The stamps.

    Attributes:
        model_path: The folder, or the hub id.
        model_files: Size in bytes and time of modification in nanoseconds, by name; of a hub id
            none: its commit says all.
        chat_template_sha256: Of the study's own template; None when it has none.
    """

    model_path: str
    model_files: dict[str, tuple[int, int]]
    chat_template_sha256: str | None


def stamp(request: PrepareRequest) -> Inputs:
    """Returns the stamps as they are now."""
    return Inputs(
        model_path=request.model.path,
        model_files=_model_files(Path(request.model.path)),
        chat_template_sha256=_template_sha256(request),
    )


def changed_inputs(inputs: Inputs, request: PrepareRequest, manifest: Manifest) -> Iterator[Fault]:
    """Yields a fault for a model or a template that is not the one that was prepared with."""
    if not _is_same_model(inputs, request, manifest):
        what = "not the model that the study was prepared with"
        yield Fault(what=what, where=request.model.path, hint=WAY_ON)
    if inputs.chat_template_sha256 != _template_sha256(request):
        what = "not the chat template that the study was prepared with"
        yield Fault(what=what, where=request.data.chat_template, hint=WAY_ON)


def _is_same_model(inputs: Inputs, request: PrepareRequest, manifest: Manifest) -> bool:
    folder = Path(request.model.path)
    is_same_path = inputs.model_path == request.model.path
    if is_same_path and inputs.model_files == _model_files(folder):
        return True
    return folder.is_dir() and model_digest(folder) == manifest.model_digest


def _model_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns the stamps of a local folder's files; a relative path is a hub id's."""
    if not folder.is_absolute() or not folder.is_dir():
        return {}
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    stats = {file.relative_to(folder).as_posix(): file.stat() for file in files}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _template_sha256(request: PrepareRequest) -> str | None:
    template = request.data.chat_template
    return None if template is None or not Path(template).is_file() else file_sha256(Path(template))
