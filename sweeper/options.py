"""What every option class shares: strictness, and scalars that carry their unit.

Each room keeps its own option classes beside the code they steer; `study/schema.py` composes
them. All of them are frozen, refuse unknown keys and never turn one type into another.

Owns: the strict base, rates, durations, sizes. Refuses to know: any key of the study file.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Options(BaseModel):
    """A group of settings: frozen, strict, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


HIGHEST_SANE_RATE = 1.0
"""Above it a learning rate is taken for a slip of the exponent's sign."""

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveNumber = Annotated[float, Field(gt=0)]
NonNegativeNumber = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, le=HIGHEST_SANE_RATE)]

_SECONDS = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_BYTES = MappingProxyType({"KiB": 2**10, "MiB": 2**20, "GiB": 2**30})


DURATION = "a duration above zero with its unit: 90s, 10m, 2h or 1d"
SIZE = "a size above zero with its unit: 512MiB or 16GiB"
"""How such values are written."""


def duration_seconds(text: str) -> float:
    """Returns the seconds of a duration such as `90s`, `10m`, `1.5h` or `2d`.

    Raises:
        ValueError: It has no unit of s, m, h, d, or is not above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"write {DURATION}")
    return float(match[1]) * _SECONDS[match[2]]


def size_bytes(text: str) -> int:
    """Returns the bytes of a size such as `512MiB` or `16GiB`.

    Raises:
        ValueError: It has no unit of KiB, MiB, GiB, or is not above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(KiB|MiB|GiB)", text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"write {SIZE}")
    return int(float(match[1]) * _BYTES[match[2]])


def _is_duration(text: str) -> str:
    duration_seconds(text)
    return text


def _is_size(text: str) -> str:
    size_bytes(text)
    return text


Duration = Annotated[
    str,
    AfterValidator(_is_duration),
    Field(description=DURATION),
]
"""A duration as written; `duration_seconds` gives its value."""

Size = Annotated[
    str,
    AfterValidator(_is_size),
    Field(description=SIZE),
]
"""A size as written; `size_bytes` gives its value."""
