"""The study file as one typed value, composed of the rooms' own option classes.

Fields say what each key alone may hold; what two keys may not say together is in `rules.py`,
so that every fault of a file is found in one go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic_core.core_schema import ValidationInfo

from sweeper.data.options import DataOptions
from sweeper.options import Options, Positive, PositiveNumber
from sweeper.selection.evidence import BASELINE, StudyKind, kind_of
from sweeper.selection.options import SelectionOptions
from sweeper.study.run_options import RunOptions
from sweeper.training.options import (
    EvaluationOptions,
    LoraOptions,
    ModelOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions

Prose = Annotated[str, Field(min_length=1)]

StudyName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="a name of at most 100 letters, digits, `.`, `_` and `-`, "
        "which begins with a letter or a digit",
    ),
]

Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Question(Options):
    """What the study is asked; `kind` decides how the answer line is worded."""

    kind: Literal["rate_too_high", "rate_too_low", "which"]
    text: Prose


ArmValue = Annotated[str | int | float, Field(description="a number, or a precision by its name")]


class Compare(Options):
    """The one factor: a key, and its arms by name.

    Under `multiply` an arm is a factor of the key's own value; under `values` it is a value.
    """

    key: str
    multiply: dict[str, PositiveNumber] | None = None
    values: dict[str, ArmValue] | None = None

    @field_validator("values")
    @classmethod
    def _of_one_type(
        cls, values: dict[str, ArmValue] | None, context: ValidationInfo
    ) -> dict[str, ArmValue] | None:
        """A rate of `1` is the rate of `1.0`, and makes the same fingerprint."""
        if values is None or context.data.get("key") != "training.learning_rate":
            return values
        return {name: 1.0 if value == 1 else value for name, value in values.items()}


class EarlierChoice(Options):
    """A baseline taken from an earlier study's frozen choice."""

    model_config = ConfigDict(validate_by_alias=True, serialize_by_alias=True)

    folder: str = Field(alias="from")


class Budget(Options):
    """Target tokens read per trial, as a number or as whole epochs of the training split."""

    target_tokens: Positive | None = None
    epochs: Positive | None = None


class Study(Options):
    """Everything a study file says, defaults filled in.

    Attributes:
        lora: As written; `adapter` is what the trials use.
    """

    name: StudyName
    question: Question
    justification: Prose
    compare: Compare
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    baseline: EarlierChoice | None = None
    budget: Budget
    model: ModelOptions
    tune: Literal["lora", "full"]
    lora: LoraOptions | None = None
    data: DataOptions
    training: TrainingOptions
    evaluation: EvaluationOptions = EvaluationOptions()
    stop: StopOptions = StopOptions()
    selection: SelectionOptions = SelectionOptions()
    run: RunOptions = RunOptions()

    @property
    def adapter(self) -> LoraOptions | None:
        """The adapter that is trained, with its defaults; None for full fine-tuning."""
        if self.tune == "full":
            return None
        return self.lora or LoraOptions()

    @property
    def learning_rate(self) -> float:
        """The baseline's peak rate."""
        rate = self.training.learning_rate
        assert rate is not None, "rules.py refuses a study without a rate"
        return rate

    @property
    def arm_values(self) -> MappingProxyType[str, float | int | str]:
        """Each arm's value of the compared key, the baseline first, the others as written.

        A rate is a float, a number of records an int, a precision its name.
        """
        values = self.compare.values or self._multiplied
        others = {name: value for name, value in values.items() if name != BASELINE}
        return MappingProxyType({BASELINE: values[BASELINE], **others})

    @property
    def _multiplied(self) -> dict[str, float | int]:
        factors, kind = self.compare.multiply, kind_of(self.compare.key)
        assert factors is not None, "arm_rules.py asks for values or factors"
        if kind is StudyKind.RATE:
            return {name: self.learning_rate * factor for name, factor in factors.items()}
        assert kind is StudyKind.BATCH_SIZE, "arm_rules.py refuses to multiply a precision"
        own = self.training.records_per_update
        return {name: round(factor * own) for name, factor in factors.items()}
