"""The run folder of a study: every path in it comes from here."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

RUNS = "runs"
"""The folder beside study files in which each study has its own."""


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """`runs/<name>/` beside the study file: all that a study makes."""

    path: Path

    @classmethod
    def beside(cls, study_file: Path, name: str) -> StudyFolder:
        """Returns the folder of the study of that name whose file is `study_file`."""
        return cls(study_file.resolve().parent / RUNS / name)

    @classmethod
    def of_attempt(cls, attempt: Path) -> StudyFolder:
        """Returns the run folder that an attempt's folder lies in; see `attempt`."""
        above = attempt.resolve().parents
        return cls(above[min(3, len(above) - 1)])

    def make(self) -> None:
        """Makes the folder, for this user only; one that is there keeps its mode.

        Raises:
            OSError: It cannot be made.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)

    @property
    def is_for_others(self) -> bool:
        """Whether other users may look into it."""
        return bool(self.path.stat().st_mode & 0o077)

    @property
    def recorded_study(self) -> Path:
        """The study file as it was when the study began."""
        return self.path / "study.yaml"

    @property
    def database(self) -> Path:
        """The SQLite study database, Optuna's tables included."""
        return self.path / "study.db"

    @property
    def database_note(self) -> Path:
        """Says where the database is, when the run folder is on a network file system."""
        return self.path / "database.json"

    @property
    def database_url(self) -> str:
        """The same as a URL."""
        return sqlite_url(self.database.resolve())

    @property
    def prepared(self) -> Path:
        """Tokens and manifest; the only data that a trial opens."""
        return self.path / "prepared"

    @property
    def manifest(self) -> Path:
        """What was prepared, and from what."""
        return self.prepared / "manifest.json"

    @property
    def inputs(self) -> Path:
        """Stamps of the model's files that were prepared with."""
        return self.prepared / "inputs.json"

    @property
    def inspection(self) -> Path:
        """What the model report answers; appears after the report."""
        return self.prepared / "inspection.json"

    @property
    def model_report(self) -> Path:
        """The shape of the model, found without loading a weight."""
        return self.prepared / "model.json"

    @property
    def prepare_lock(self) -> Path:
        """Locked while data are prepared."""
        return self.path / "prepare.lock"

    @property
    def prepare_log(self) -> Path:
        """What the preparing child processes wrote to stderr."""
        return self.path / "prepare.log"

    @property
    def plan(self) -> Path:
        """Cells, exposure plan and fingerprint as JSON."""
        return self.path / "plan.json"

    @property
    def journal(self) -> Path:
        """A line for all that users changed by hand, and for how the study ended."""
        return self.path / "journal.jsonl"

    @property
    def chain(self) -> Path:
        """The mirror of the record's chain, an entry a line."""
        return self.path / "chain.jsonl"

    @property
    def coordinator(self) -> Path:
        """Locked by the one process that runs the study, and naming it."""
        return self.path / "coordinator.json"

    def worker(self, host: str) -> Path:
        """Locked by the one worker of that host, and naming it."""
        return self.path / f"worker-{_plain(host)}.json"

    def of_this_host(self, name: str) -> Path:
        """What no other host writes that shares the folder."""
        return self.path / f"{name}-{_plain(socket.gethostname())}"

    @property
    def workers(self) -> tuple[Path, ...]:
        """The files of all hosts' workers, also of those that have ended."""
        return tuple(sorted(self.path.glob("worker-*.json")))

    @property
    def report(self) -> Path:
        """The report as a page, and its figures."""
        return self.path / "report"

    @property
    def logs(self) -> Path:
        """What supervisors write for people."""
        return self.path / "logs"

    @property
    def run_log(self) -> Path:
        """What a run in the background writes for people."""
        return self.logs / "run.log"

    @property
    def trials(self) -> Path:
        """One folder per cell."""
        return self.path / "trials"

    @property
    def replays(self) -> Path:
        """One folder per replay of a trial; trials know nothing of them."""
        return self.path / "replays"

    def attempt(self, *, arm: str, seed: int, number: int) -> Path:
        """The folder of one attempt; nothing else ever writes in it."""
        return self.trials / f"{arm}-{seed}" / "attempts" / str(number)


def sqlite_url(file: Path) -> str:
    """Returns the URL of an SQLite file, whatever characters its path has; `store` decodes them."""
    return f"sqlite:///{quote(os.fsencode(file))}"


def _plain(host: str) -> str:
    """Returns a host's name as a part of a file's."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in host)
