"""What the slots of a study share while it is run."""

from __future__ import annotations

from dataclasses import dataclass, field

from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Cell, Plan
from sweeper.sweep.devices import Places
from sweeper.sweep.engine_jobs import Jobs
from sweeper.sweep.extending import Extending
from sweeper.sweep.finishing import Terms
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import Observer
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.others import Others
from sweeper.sweep.quarantine import DeviceFaults
from sweeper.sweep.stop_request import StopRequest
from sweeper.sweep.turns import Turns
from sweeper.sweep.wrong_nodes import WrongNodes
from sweeper.workers.launcher import Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """A study, its record, and who runs it; safe to share between threads.

    Attributes:
        extending: The plan, and how it grows.
        slots: The names of the slots at work.
        faults: What devices have done to trials in this run.
        places: What is known of the slots, and which seeds they are right for.
        stop: The user's wish to end.
        reverse_claims: Cells are claimed from the end of the plan.
        needed_disk_bytes: What a trial writes at the least.
        others: The study's other coordinators.
        jobs: What an earlier coordinator has left to an engine.
        lease: How long a claim holds that is not renewed.
        wrong_nodes: What an engine has given to cells of seeds that began elsewhere.
    """

    study_file: StudyFile
    extending: Extending
    folder: StudyFolder
    owner: Owner
    store: StudyStore
    optuna_study: OptunaStudy
    launcher: Launcher
    slots: tuple[str, ...]
    turns: Turns
    faults: DeviceFaults
    places: Places
    stop: StopRequest
    observer: Observer
    reverse_claims: bool
    needed_disk_bytes: int = 0
    others: Others = field(default_factory=lambda: Others(None))
    jobs: Jobs = field(default_factory=Jobs)
    lease: LeaseTerms = field(default_factory=LeaseTerms)
    wrong_nodes: WrongNodes = field(default_factory=WrongNodes)

    @property
    def plan(self) -> Plan:
        """The plan as it is now: it may grow."""
        return self.extending.plan

    @property
    def terms(self) -> Terms:
        """What endings are measured by."""
        return terms_of(self.study_file, self.plan.budget_target_tokens)

    def cell(self, cell_id: str) -> Cell:
        """Returns the planned cell of that id."""
        return next(cell for cell in self.plan.cells if cell.id == cell_id)


def terms_of(study_file: StudyFile, budget_target_tokens: int) -> Terms:
    """Returns what the endings of the study's attempts are measured by."""
    return Terms(
        budget_target_tokens=budget_target_tokens,
        max_resumes=study_file.study.run.max_resumes,
        keeps_best=study_file.study.selection.checkpoint == "best_validation",
    )
