"""The run folder of a study: every path in it comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """`runs/<name>/` beside the study file: all that a study makes."""

    path: Path

    @property
    def recorded_study(self) -> Path:
        """The study file as it was when the study began."""
        return self.path / "study.yaml"

    @property
    def database(self) -> Path:
        """The SQLite study database, Optuna's tables included."""
        return self.path / "study.db"

    @property
    def prepared(self) -> Path:
        """Tokens and manifest; the only data that a trial opens."""
        return self.path / "prepared"

    @property
    def plan(self) -> Path:
        """Cells, exposure plan and fingerprint as JSON."""
        return self.path / "plan.json"

    @property
    def trials(self) -> Path:
        """One folder per cell."""
        return self.path / "trials"

    def attempt(self, *, arm: str, seed: int, number: int) -> Path:
        """The folder of one attempt; nothing else ever writes in it."""
        return self.trials / f"{arm}-{seed}" / "attempts" / str(number)
