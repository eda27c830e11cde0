"""What an export holds, as its model card needs to know it. Torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.study.base_model import BaseModel
from sweeper.study.spec import TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an export."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An export, but for its card.

    Attributes:
        spec: What the trial was told.
        is_adapter: Whether it needs its base model beside it.
        merged: Whether an adapter was made one with its base.
        validation_loss: Of the exported files, loaded anew; None where they were not evaluated.
        tolerance: How near that had to be to the one on record.
        files: In order of their names.
    """

    base: BaseModel
    spec: TrialSpec
    is_adapter: bool
    merged: bool
    validation_loss: float | None
    tolerance: float | None
    files: Sequence[ExportedFile]
