"""What one attempt is told: everything the child process needs, and nothing else.

A spec refers to `prepared/` only, never to a file that a user's records came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from sweeper.data.options import Packing
from sweeper.options import NonNegative, Options, Positive
from sweeper.study.run_options import CheckpointOptions
from sweeper.training.options import (
    EvaluationOptions,
    LoraOptions,
    ModelOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions


class PlannedExposure(Options):
    """What a cell reads, known before the first trial and checked after the last.

    Attributes:
        records: Records read, an epoch's repetition counted again.
        target_tokens: Supervised tokens read; equals the budget.
        input_tokens: All tokens of those records, padding left out.
        windows: Planned windows, which is the largest possible number of updates.
        record_digest: Rolling SHA-256 after the last window, hexadecimal.
        rows: Packed rows that hold the records; None without packing.
    """

    records: Positive
    target_tokens: Positive
    input_tokens: Positive
    windows: Positive
    last_window_target_tokens: Positive
    record_digest: str
    rows: Positive | None = None


class TrialSpec(Options):
    """One attempt at one cell, resolved.

    Attributes:
        cell: `arm/seed`, for instance `double/2`.
        attempt: From 1.
        prepared: Absolute path of the prepared data.
        model: The base model; `path` is absolute, or a hub id.
        training: With the arm's `learning_rate`.
        packing: How records share rows; None: each is a row of its own.
        keep_best: Whether the weights with the lowest validation loss are kept beside the last.
        ranks: Processes that share every window.
        threads: Threads torch may use, in each rank.
        device_memory_bytes: What each rank may hold on its GPU; None: all of it.
        checkpoint: When the trial's state is saved, and how many of them stay.
        resume_from: Absolute folder of an earlier attempt, whose newest valid checkpoint is gone
            on from; that of the one which it resumed from in turn, when it has none. None: the
            trial starts from the beginning.
        resume_elsewhere: Go on even on another kind of device or number of ranks; it is marked.
        seed_environment: What the seed's first attempt ran on, by field. The attempt ends before
            it has begun where it finds anything else. None: it may run anywhere.
    """

    study: str
    fingerprint: str
    cell: str
    arm: str
    seed: int
    attempt: Positive
    prepared: str
    model: ModelOptions
    tune: Literal["lora", "full"]
    lora: LoraOptions | None
    training: TrainingOptions
    packing: Packing | None = None
    budget_target_tokens: Positive
    planned: PlannedExposure
    evaluation: EvaluationOptions
    stop: StopOptions
    micro_batch: Positive
    keep_best: bool = False
    ranks: Positive = 1
    deterministic: bool = True
    threads: Positive = 1
    device_memory_bytes: Positive | None = None
    fencing_number: NonNegative = 0
    checkpoint: CheckpointOptions = CheckpointOptions()
    resume_from: str | None = None
    resume_elsewhere: bool = False
    seed_environment: dict[str, str] | None = None

    def settings(self) -> dict[str, str]:
        """Returns what is done, by dotted key, values as JSON: the proof that one factor differs.

        What names the attempt, and where its files are, is left out; the model is in it by the
        fingerprint, which holds its digest.
        """
        return dict(_leaves(self.model_dump(mode="json", exclude=_NOT_A_SETTING)))

    @classmethod
    def read(cls, file: Path) -> TrialSpec:
        """Returns the spec that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the spec as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)


_NOT_A_SETTING: Mapping[str, bool | dict[str, bool]] = MappingProxyType(
    {
        "cell": True,
        "arm": True,
        "seed": True,
        "attempt": True,
        "prepared": True,
        "device_memory_bytes": True,
        "fencing_number": True,
        "checkpoint": True,
        "resume_from": True,
        "resume_elsewhere": True,
        "seed_environment": True,
        "model": {"path": True},
    }
)


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, entry in value.items():
            yield from _leaves(entry, f"{key}.{name}" if key else str(name))
    else:
        yield key, json.dumps(value, sort_keys=True)
