"""Looks at a model's shape and at an adapter's targets without loading a weight."""

from __future__ import annotations

from torch import Tensor
from transformers import PreTrainedModel

from sweeper.training.adapter import adapt, unfreeze
from sweeper.training.leak import refuse_unpackable
from sweeper.training.model import sketch_model
from sweeper.training.report import InspectionRequest, ModelReport
from sweeper.training.targets import is_tied
from sweeper.training.trainable import count


def inspect(request: InspectionRequest) -> ModelReport:
    """Returns the report on the model that the request names.

    Raises:
        ModelError: The model is not usable, or not for packed records, or a target matches nothing;
            all such names at once.
    """
    model = sketch_model(request.model)
    if request.is_packed:
        refuse_unpackable(model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    positions = _max_positions(model)
    rows, tied = _embedding_rows(model), is_tied(model)
    adapted = unfreeze(model) if request.lora is None else adapt(model, request.lora, seed=0)
    return ModelReport(
        parameters=parameters,
        trainable_parameters=count(adapted.tensors),
        adapted_modules=adapted.modules,
        embedding_rows=rows,
        max_positions=positions,
        tied_embeddings=tied,
    )


def _max_positions(model: PreTrainedModel) -> int | None:
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    return None if positions is None else int(positions)


def _embedding_rows(model: PreTrainedModel) -> int:
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return len(weight)
