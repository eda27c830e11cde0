"""Whether the prepared tokens have a place in the model."""

from __future__ import annotations

from sweeper.data.manifest import Manifest
from sweeper.errors import Fault, ModelError
from sweeper.study.schema import Study
from sweeper.training.report import ModelReport


def check_fit(study: Study, manifest: Manifest, model: ModelReport) -> None:
    """Refuses tokens that the model has no place for.

    Raises:
        ModelError: Records may be too long for it, or tokens have no row in its embedding.
    """
    faults = []
    if model.max_positions is not None and study.data.max_length > model.max_positions:
        faults.append(
            Fault(
                what="records may be longer than the model's positions",
                where="data.max_length",
                got=str(study.data.max_length),
                expected=f"at most {model.max_positions}",
                hint="Lower data.max_length.",
            )
        )
    if manifest.vocabulary_size > model.embedding_rows:
        faults.append(
            Fault(
                what="the tokenizer has tokens that the model has no embedding for",
                where="model.path",
                got=f"token ids up to {manifest.vocabulary_size - 1}",
                expected=f"below {model.embedding_rows}, the rows of the embedding",
                hint="Use the tokenizer that belongs to this model.",
            )
        )
    if faults:
        raise ModelError(*faults)
