"""Settings that the option classes know and training cannot honour yet: refused, never ignored."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.errors import Fault, ModelError
from sweeper.training.options import LoraOptions, ModelOptions, TrainingOptions


def refuse_model(options: ModelOptions) -> None:
    """Refuses quantization and flash attention.

    Raises:
        ModelError: One of them is asked for.
    """
    _refuse(
        {
            "model.quantization": options.quantization,
            "model.attention": options.attention == "flash_attention_2" and options.attention,
        }
    )


def refuse_lora(options: LoraOptions) -> None:
    """Refuses variants of LoRA, patterns and modules trained whole.

    Raises:
        ModelError: One of them is asked for.
    """
    _refuse(
        {
            "lora.dora": options.dora,
            "lora.rslora": options.rslora,
            "lora.rank_pattern": options.rank_pattern,
            "lora.alpha_pattern": options.alpha_pattern,
            "lora.modules_to_save": options.modules_to_save,
        }
    )


def refuse_training(options: TrainingOptions) -> None:
    """Refuses gradient checkpointing, TF32 and float16.

    Raises:
        ModelError: One of them is asked for.
    """
    _refuse(
        {
            "training.gradient_checkpointing": options.gradient_checkpointing,
            "training.tf32": options.tf32,
            "training.precision": options.precision == "float16" and options.precision,
        }
    )


def _refuse(settings: Mapping[str, object]) -> None:
    faults = [
        Fault(
            what="this setting is not built yet",
            where=where,
            got=str(asked),
            hint="Leave it out.",
        )
        for where, asked in settings.items()
        if asked
    ]
    if faults:
        raise ModelError(*faults)
