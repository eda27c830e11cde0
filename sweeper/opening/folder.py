"""Where an opening keeps its files: a folder of its own in the run folder. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sweeper.study.folder import StudyFolder
from sweeper.trial.folder import AttemptFolder


@dataclass(frozen=True, slots=True)
class OpeningFolder:
    """`runs/<name>/opening/`; one folder per evaluation below it, laid out as attempts are."""

    path: Path

    @classmethod
    def of(cls, study: StudyFolder) -> OpeningFolder:
        """Returns the folder of a study's opening."""
        return cls(study.path / "opening")

    @property
    def intent(self) -> Path:
        """Made by the first intent, before a record is read; never made twice."""
        return self.path / "test.intent"

    @property
    def lock(self) -> Path:
        """Locked while the test split is opened."""
        return self.path / "opening.lock"

    def evaluation(self, number: int) -> EvaluationFolder:
        """The folder of one evaluation, also of one that came to nothing; from 1."""
        return EvaluationFolder(self.path / "test" / "attempts" / str(number))

    def new_evaluation(self) -> EvaluationFolder:
        """Makes the folder of the next evaluation.

        Raises:
            OSError: It cannot be made.
        """
        number = 1
        while self.evaluation(number).path.exists():
            number += 1
        folder = self.evaluation(number)
        folder.path.mkdir(parents=True)
        return folder


@dataclass(frozen=True, slots=True)
class EvaluationFolder:
    """What the child is asked, and what it leaves."""

    path: Path

    @property
    def attempt(self) -> AttemptFolder:
        """The same as launchers know it: logs, supervision, the engine's job."""
        return AttemptFolder(self.path)

    @property
    def request(self) -> Path:
        """What the child is to do."""
        return self.path / "request.json"

    @property
    def report(self) -> Path:
        """What it found; appears whole, at the end."""
        return self.path / "report.json"

    @property
    def refusal(self) -> Path:
        """Why it found nothing, where a user can mend that."""
        return self.path / "refusal.json"

    @property
    def tokens(self) -> Path:
        """The test records as tokens, as the other splits are in `prepared/`."""
        return self.path / "tokens"

    @property
    def losses(self) -> Path:
        """The loss of every test record, a file per checkpoint."""
        return self.path / "losses"
