"""What the child process that opens the test split is asked, and what it answers. Torch-free."""

from __future__ import annotations

from pathlib import Path

from sweeper.data.options import DataOptions
from sweeper.data.request import ModelSource
from sweeper.options import Options, Positive
from sweeper.selection.frozen import Role
from sweeper.training.options import ModelOptions


class CheckpointRequest(Options):
    """One frozen checkpoint.

    Attributes:
        arm: None for the untrained model.
        weights: Absolute folder of the saved adapter or model; None for the untrained model.
        weights_sha256: Over the folder's files.
        spec: Absolute path of the specification of the trial that made it; of the untrained model,
            of one that began from it.
        initial_digest: Of the initial trainable tensors that the trial reported.
        validation_loss: On record.
    """

    role: Role
    arm: str | None
    seed: int
    weights: str | None
    weights_sha256: str | None
    spec: str
    initial_digest: str
    validation_loss: float

    @property
    def name(self) -> str:
        """For messages and files: `half-2`, `initial-2`."""
        return f"{self.arm or self.role.value}-{self.seed}"


class OpeningRequest(Options):
    """What to evaluate, on which records.

    Attributes:
        prepared: Absolute folder of the study's prepared data.
        model: The base model, wherever it is now.
        tokenizer: Likewise, as preparing found it.
        records: The study's `data:` section; its test file is the one to be opened.
    """

    prepared: str
    model: ModelOptions
    tokenizer: ModelSource
    records: DataOptions
    checkpoints: tuple[CheckpointRequest, ...]

    @classmethod
    def read(cls, file: Path) -> OpeningRequest:
        """Returns the request that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the request as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)


class FoundOverlap(Options):
    """See `selection.opened.OpenedOverlap`."""

    kind: str
    split: str
    count: int | None
    record_numbers: tuple[int, ...] = ()
    test_records: int | None = None


class FoundLoss(Options):
    """What one checkpoint scored; the same order as in the request.

    Attributes:
        validation_loss: Computed again; agrees with the record.
        test_loss: None where it is not finite.
        per_record_path: Relative to the evaluation's folder.
    """

    validation_loss: float
    test_loss: float | None
    per_record_path: str
    per_record_sha256: str


class OpeningReport(Options):
    """What the child found; see `selection.opened.Opened`."""

    records_digest: str
    records_read: Positive
    records: Positive
    target_tokens: Positive
    set_digest: str
    overlaps: tuple[FoundOverlap, ...]
    losses: tuple[FoundLoss, ...]
    environment: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> OpeningReport:
        """Returns the report that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the report as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
