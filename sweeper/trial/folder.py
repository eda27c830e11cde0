"""The folder of one attempt: every path in it comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """What the child reads and writes, and what its supervisor adds."""

    path: Path

    @property
    def spec(self) -> Path:
        """What to do; written before the child starts."""
        return self.path / "spec.json"

    @property
    def events(self) -> Path:
        """One line per fact, appended by the child alone."""
        return self.path / "events.jsonl"

    @property
    def stdout(self) -> Path:
        """The child's standard output."""
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        """The child's standard error: the log for people."""
        return self.path / "stderr.log"

    @property
    def supervision(self) -> Path:
        """How the child ended as its supervisor saw it; appears whole, at the end."""
        return self.path / "supervision.json"

    @property
    def heartbeat(self) -> Path:
        """Rewritten by the supervisor while the child lives."""
        return self.path / "heartbeat.json"

    @property
    def meeting(self) -> Path:
        """Where the ranks of an attempt find each other; gone when the attempt has ended."""
        return self.path / "meeting"

    @property
    def checkpoints(self) -> Path:
        """What the trial can go on from, a folder each; appear whole."""
        return self.path / "checkpoints"

    @property
    def evidence(self) -> Path:
        """What a stop condition left; appears whole."""
        return self.path / "evidence"

    @property
    def adapter(self) -> Path:
        """The final adapter, or the final model of a full fine-tuning; appears whole."""
        return self.path / "adapter"

    @property
    def best(self) -> Path:
        """Likewise, with the lowest validation loss, where the study keeps it."""
        return self.path / "best"
