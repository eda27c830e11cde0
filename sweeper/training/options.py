"""Settings of the training room. Torch-free; the code that they steer is beside this file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sweeper.options import (
    NonNegative,
    NonNegativeNumber,
    Options,
    Positive,
    PositiveNumber,
    Rate,
    Share,
)

Precision = Literal["auto", "float32", "bfloat16", "float16", "float64"]
"""`float64` serves reference tests; the study file refuses it."""


class ModelOptions(Options):
    """The base model: a checkpoint folder or a hub id."""

    path: str
    revision: str = "main"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    quantization: Literal["nf4"] | None = None
    trust_remote_code: bool = False


class LoraOptions(Options):
    """The adapter. `targets` is a list of module names or a full-match pattern."""

    rank: Positive = 16
    alpha: PositiveNumber = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    targets: str | tuple[str, ...] = "all-linear"
    dora: bool = False
    rslora: bool = False
    rank_pattern: dict[str, Positive] = Field(default_factory=dict)
    alpha_pattern: dict[str, PositiveNumber] = Field(default_factory=dict)
    modules_to_save: tuple[str, ...] = ()


class Warmup(Options):
    """Length of the linear rise, in exactly one unit."""

    updates: NonNegative | None = None
    target_tokens: NonNegative | None = None
    fraction: Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _has_one_unit(self) -> Warmup:
        units = (self.updates, self.target_tokens, self.fraction)
        if sum(unit is not None for unit in units) != 1:
            raise ValueError("give one of `updates`, `target_tokens` and `fraction`")
        return self


class ScheduleOptions(Options):
    """The rate as a pure function of a counter; see `training/schedule.py`."""

    kind: Literal["constant", "linear", "cosine"]
    warmup: Warmup | None = None
    counter: Literal["updates", "target_tokens"] = "updates"
    final: Share = 0.0


class AdamWOptions(Options):
    """AdamW with decoupled decay, applied to tensors of two or more dimensions."""

    kind: Literal["adamw"]
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (
        0.9,
        0.999,
    )
    eps: NonNegativeNumber = 1e-8
    weight_decay: NonNegativeNumber = 0.0


class SgdOptions(Options):
    """Stochastic gradient descent."""

    kind: Literal["sgd"]
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NonNegativeNumber = 0.0


OptimizerOptions = Annotated[AdamWOptions | SgdOptions, Field(discriminator="kind")]


class TrainingOptions(Options):
    """How one update is made."""

    learning_rate: Rate | None = None
    schedule: ScheduleOptions
    optimizer: OptimizerOptions = AdamWOptions(kind="adamw")
    records_per_update: Positive
    clip_norm: PositiveNumber | None = 1.0
    precision: Precision = "auto"
    gradient_checkpointing: bool = False
    tf32: bool = False


class EvaluationGrid(Options):
    """How far apart evaluations are."""

    target_tokens: Positive


class EvaluationOptions(Options):
    """When the held-out splits are scored, and on how many of their records."""

    every: EvaluationGrid | None = None
    max_records: Positive | None = None
