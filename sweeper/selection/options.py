"""Settings that decide what counts as a difference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.options import NonNegativeNumber, Options, PositiveNumber


class SelectionOptions(Options):
    """The selection rule, agreed before the first trial."""

    checkpoint: Literal["last", "best_validation"] = "last"
    smallest_difference: NonNegativeNumber = 0.005
    retention_margin: PositiveNumber = 0.02
    extensions: Annotated[int, Field(ge=0, le=2)] = 0
    target_loss: Literal["worst_baseline"] | PositiveNumber = "worst_baseline"
    precision_tolerance: PositiveNumber = 0.01
    noise_floor: bool = False
