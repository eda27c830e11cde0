"""What is trained, by how much, and by which setting: found in the model, not in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peft import LoraModel
from peft.tuners.lora import LoraLayer

from sweeper.training.adapter import AdaptedModel
from sweeper.training.targets import Matches
from sweeper.training.trainable import count, trainable


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is trained.

    Attributes:
        matched: Full module names by the setting that means them, for instance
            `lora.targets: q_proj`; empty for full tuning. None of them is empty.
        scaling: By what each adapted module's product of B and A is multiplied.
        trainable_parameters: Trainable scalars, each storage counted once.
    """

    matched: Matches
    scaling: Mapping[str, float]
    trainable_parameters: int


def audit(adapted: AdaptedModel) -> Audit:
    """Looks at a model that is ready to be trained.

    Raises:
        ModelError: Nothing is trainable, or two trainable tensors share storage.
    """
    return Audit(
        matched=adapted.matched,
        scaling=_scaling(adapted),
        trainable_parameters=count(trainable(adapted.model)),
    )


def _scaling(adapted: AdaptedModel) -> Mapping[str, float]:
    """Reads peft's own layers: alpha / rank, or alpha / sqrt(rank) when rank-stabilised.

    Source: Hu et al., LoRA, 2021, section 4.1; Kalajdzievski, A Rank Stabilization Scaling Factor
    for Fine-Tuning with LoRA, 2023, theorem 3.2.
    """
    tuner = getattr(adapted.model, "base_model", None)
    if not isinstance(tuner, LoraModel):
        return {}
    scaling = {}
    for name in adapted.modules:
        layer = tuner.model.get_submodule(name)
        assert isinstance(layer, LoraLayer)
        scaling[name] = float(layer.scaling["default"])
    return scaling
