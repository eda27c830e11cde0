"""What an inspection is asked and what it answers. Torch-free, so that the plan can read it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sweeper.options import Options
from sweeper.training.options import LoraOptions, ModelOptions


class InspectionRequest(Options):
    """Which model, and what of it is to be trained.

    Attributes:
        model: The base model; `path` is absolute, or a hub id.
        lora: The adapter; None when the whole model is tuned.
        is_packed: Whether records are packed, which not every model keeps apart.
    """

    model: ModelOptions
    tune: Literal["lora", "full"]
    lora: LoraOptions | None
    is_packed: bool = False


class ModelReport(Options):
    """The model's shape, found without loading a weight.

    Attributes:
        parameters: Scalars of the base model.
        trainable_parameters: Scalars that training would change.
        adapted_modules: Names of the modules an adapter goes on; empty for full tuning.
        embedding_rows: Rows of the input embedding: token ids must be below it.
        max_positions: Longest sequence the model declares; None when it declares none.
        tied_embeddings: Whether input embedding and output head are one tensor.
    """

    parameters: int
    trainable_parameters: int
    adapted_modules: tuple[str, ...]
    embedding_rows: int
    max_positions: int | None
    tied_embeddings: bool

    @classmethod
    def read(cls, file: Path) -> ModelReport:
        """Returns the report that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the report as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
