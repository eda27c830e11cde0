"""Which model this is: a digest of its files. Torch-free."""

from __future__ import annotations

from pathlib import Path

from sweeper.data.manifest import files_digest

_KEPT = frozenset({".json", ".safetensors", ".bin", ".model", ".txt", ".tiktoken", ".jinja", ".py"})
_PROSE = ("readme", "license", "licence", "notice", "use_policy", "changelog")


def model_digest(folder: Path) -> str:
    """Returns the SHA-256 over names and contents of a checkpoint's files, hexadecimal.

    Configuration, weights, tokenizer, templates and code count; prose does not.
    """
    files = [*folder.iterdir(), *(folder / "chat_templates").glob("*.jinja")]
    return files_digest(folder, (file for file in files if _counts(file)))


def _counts(file: Path) -> bool:
    is_prose = file.name.lower().startswith(_PROSE)
    return file.is_file() and file.suffix in _KEPT and not is_prose
