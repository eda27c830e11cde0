"""What the child that looks at an export is asked, and what it answers. Torch-free."""

from __future__ import annotations

from pathlib import Path

from sweeper.options import Options


class ExportRequest(Options):
    """One export under construction.

    Attributes:
        spec: Absolute path of the specification of the attempt that made the weights.
        prepared: Absolute folder of the prepared data, wherever the attempt had them.
        weights: Absolute folder that the attempt left.
        folder: Absolute folder of the export. It is complete, but for the weights of an adapter
            that is to be merged.
        is_adapter: Whether `weights` is an adapter.
        merge: Whether the adapter is to become one with its base model.
        verify: Whether the export is to give the loss on record.
        validation_loss: On record.
    """

    spec: str
    prepared: str
    weights: str
    folder: str
    is_adapter: bool
    merge: bool
    verify: bool
    validation_loss: float

    @classmethod
    def read(cls, file: Path) -> ExportRequest:
        """Returns the request that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the request as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)


class ExportAnswer(Options):
    """What was found.

    Attributes:
        validation_loss: Of the exported files, loaded anew; None where they were not evaluated.
        tolerance: How near it had to be to the one on record, in nats per target token.
    """

    validation_loss: float | None
    tolerance: float | None

    @classmethod
    def read(cls, file: Path) -> ExportAnswer:
        """Returns the answer that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the answer as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
