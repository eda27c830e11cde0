"""What a replay is asked: which attempt, how far back, and the one thing that is changed.

Torch-free, so that the command line can read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sweeper.options import Options, Positive, Rate

ReplayPrecision = Literal["float32", "bfloat16", "float16"]


class OtherRate(Options):
    """The peak learning rate is another one from the first replayed window on."""

    kind: Literal["learning_rate"] = "learning_rate"
    value: Rate


class OtherPrecision(Options):
    """The precision is another one."""

    kind: Literal["precision"] = "precision"
    value: ReplayPrecision


class WithoutRecord(Options):
    """One record is left out of every replayed window.

    Attributes:
        record: Its index in the prepared training split, or the first characters of its digest.
    """

    kind: Literal["without_record"] = "without_record"
    record: Annotated[str, Field(min_length=1)]


Change = Annotated[OtherRate | OtherPrecision | WithoutRecord, Field(discriminator="kind")]


class ReplayRequest(Options):
    """One replay.

    Attributes:
        attempt: Absolute folder of the attempt.
        prepared: Absolute folder of the prepared data, wherever the attempt had them.
        windows: How many windows at least are to be run again, counted from the last one on
            record; None: all from where what ended the attempt began.
        change: None: everything is as it was.
    """

    attempt: str
    prepared: str
    windows: Positive | None = None
    change: Change | None = None

    @classmethod
    def read(cls, file: Path) -> ReplayRequest:
        """Returns the request that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the request as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
