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
    def order(self) -> Path:
        """What a node is to run and within which limits; written before its job is submitted."""
        return self.path / "order.json"

    @property
    def job(self) -> Path:
        """The engine's job, by kind, id and name; written right after it was submitted."""
        return self.path / "job.json"

    @property
    def job_script(self) -> Path:
        """What an engine that runs scripts is given."""
        return self.path / "job.sh"

    @property
    def job_log(self) -> Path:
        """What the job wrote beside the trial: the engine's own words, and those of its setup."""
        return self.path / "job.log"

    @property
    def taken(self) -> Path:
        """Made by whoever takes the order first, in one step: the node, or who calls it off."""
        return self.path / "taken.json"

    @property
    def request(self) -> Path:
        """What the coordinator asks of the node while the trial runs; replaced as a whole."""
        return self.path / "request.json"

    @property
    def claim(self) -> Path:
        """Whose attempt it is; written before it is started."""
        return self.path / "claim.json"

    @property
    def verdict(self) -> Path:
        """The coordinator's outcome, what it cost and by which claim; before the record has it."""
        return self.path / "verdict.json"

    def late_verdict(self, reason: str) -> Path:
        """Likewise, of a result that came when the cell had been taken from the attempt."""
        return self.path / f"late-{reason}.json"

    @property
    def late_verdicts(self) -> list[Path]:
        """All of these that are there."""
        return sorted(self.path.glob("late-*.json"))

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
