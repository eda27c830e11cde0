"""What the preparing child process is asked to do. Torch-free."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sweeper.data.options import DataOptions
from sweeper.options import Options


class ModelSource(Options):
    """The checkpoint whose tokenizer is used: an absolute folder, or a hub id."""

    path: str
    revision: str = "main"
    trust_remote_code: bool = False


class PrepareRequest(Options):
    """A model's tokenizer and the data to prepare with it; all paths are absolute."""

    model: ModelSource
    data: DataOptions

    def digest(self) -> str:
        """Returns the SHA-256 of the request as canonical JSON, hexadecimal."""
        plain = self.model_dump(mode="json")
        canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    @classmethod
    def read(cls, file: Path) -> PrepareRequest:
        """Returns the request that `to_json` wrote into `file`."""
        return cls.model_validate_json(file.read_bytes())

    def to_json(self) -> str:
        """Returns the request as readable JSON that `read` takes back unchanged."""
        return self.model_dump_json(indent=1)
