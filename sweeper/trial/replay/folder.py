"""The folder of one replay: every path in it comes from here. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ReplayFolder:
    """What the coordinator writes for the replaying child, and what that one leaves."""

    path: Path

    @property
    def request(self) -> Path:
        """What is asked; written before the child starts."""
        return self.path / "request.json"

    @property
    def events(self) -> Path:
        """The facts of the replay, as an attempt would report them."""
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """The child's standard error."""
        return self.path / "stderr.log"

    @property
    def report(self) -> Path:
        """What was found; appears whole, at the end."""
        return self.path / "report.json"
