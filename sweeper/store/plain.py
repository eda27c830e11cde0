"""Values on their way into columns: canonical JSON, and numbers that are not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime


def to_json(value: object) -> str:
    """Returns canonical JSON: sorted keys, no spaces, nonfinite numbers as "nan" or "inf"."""
    return json.dumps(
        _finite(value), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def without_nonfinite(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields with nonfinite numbers as None, and `nonfinite` naming them.

    `nonfinite` is None when there are none, else for instance `gradient_norm=inf loss=nan`.
    """
    bad = {name for name, value in fields.items() if _is_nonfinite(value)}
    named = " ".join(f"{name}={fields[name]}" for name in sorted(bad))
    kept = {name: None if name in bad else value for name, value in fields.items()}
    return kept | {"nonfinite": named or None}


def to_text(moment: datetime) -> str:
    """Returns an aware time as UTC text that sorts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_time(text: str) -> datetime:
    """Returns the aware time that the text stands for."""
    return datetime.fromisoformat(text)


def storable(text: str) -> str:
    """Returns the text with what a database refuses (lone surrogates, NUL) written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def _finite(value: object) -> object:
    if _is_nonfinite(value):
        return str(value)
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _is_nonfinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
