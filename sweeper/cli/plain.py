"""Values as what JSON knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel


def plain(value: object) -> object:
    """Returns dataclasses, options, mappings and tuples as objects and lists, times as text."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value
