"""Further arms beyond the edge: decided when every cell has ended, one round at a time.

The arm and its cells are put on record in one transaction. What follows from them, Optuna's trials
and the plan in the run folder, is made good by whoever comes next, so nothing is lost in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from sweeper.selection.boundary import Boundary
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import StudyEvidence
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan, with_added
from sweeper.study.schema import Study
from sweeper.sweep.observer import Observer
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.plan_file import write_plan
from sweeper.sweep.stop_request import StopRequest
from sweeper.sweep.study_end import is_open

_log = logging.getLogger(__name__)

ReadEvidence = Callable[[StudyStore], StudyEvidence]
"""Returns what the record shows; it is the report's to put together."""


def plan_on_record(plan: Plan, study: Study, store: StudyStore) -> Plan:
    """Returns the plan with the arms that were added to the study since it began.

    Raises:
        StoreError: The database cannot be read.
    """
    return with_added(plan, study, store.rounds.arms())


def next_round(store: StudyStore, read: ReadEvidence) -> Boundary | None:
    """Returns at which edge the study is to go on, with its next arm; None where it is not.

    No arm is next before every cell has completed or was stopped: of what was limited, was lost or
    failed nobody knows which arm is best.

    Raises:
        StoreError: The database cannot be read.
    """
    if store.is_closed() or any(is_open(cell) for cell in store.cells()):
        return None
    boundary = compare(read(store)).boundary
    return None if boundary is None or boundary.next_arm is None else boundary


@dataclass(slots=True, kw_only=True)
class Extending:
    """The plan of a study that is run, which may grow. Slots' threads share it.

    Attributes:
        plan: With every arm that this coordinator knows of.
        read: None where the study may not grow.
    """

    study_file: StudyFile
    plan: Plan
    folder: StudyFolder
    store: StudyStore
    optuna_study: OptunaStudy
    read: ReadEvidence | None
    stop: StopRequest
    observer: Observer
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        study = self.study_file.study
        assert self.read is not None or not study.selection.extensions, "nobody reads its evidence"

    @property
    def spare_cells(self) -> int:
        """How many cells the next round would have; 0 when the rounds are used up."""
        study = self.study_file.study
        rounds = max(arm.round for arm in self.plan.arms)
        return len(study.seeds) if rounds < study.selection.extensions else 0

    def know(self, cell: str) -> None:
        """Makes sure that a claimed cell is in the plan: another worker may have added it.

        Raises:
            StoreError: The database cannot be used.
        """
        if not self._has(cell):
            self.catch_up()
        assert self._has(cell), "it is on record"

    def catch_up(self) -> None:
        """Takes in what other workers have added.

        Raises:
            StoreError: The database cannot be used.
        """
        with self._lock, self.store.turn():
            self._catch_up()

    def extend(self, known: Plan) -> bool:
        """Adds the next arm, if every cell has ended and there is one to add.

        Args:
            known: The plan by which the caller has looked for cells in vain.

        Returns:
            Whether there are cells that the caller has not looked for.

        Raises:
            StoreError: The database cannot be used; the next call does what is left.
        """
        if self.read is None or not self.spare_cells:
            return self.plan is not known
        with self._lock:
            if self.plan is known and not self.stop.is_asked:
                with self.store.turn():
                    self._catch_up()
                    if self.plan is known:
                        self._extend(self.read)
            return self.plan is not known

    def _extend(self, read: ReadEvidence) -> None:
        boundary = next_round(self.store, read)
        if boundary is None or (arm := boundary.next_arm) is None:
            return
        grown = with_added(self.plan, self.study_file.study, [arm])
        cells = [cell for cell in grown.cells if cell.arm == arm.name]
        facts = {"extension": arm.name, "value": arm.value, "round": arm.round}
        if self.store.rounds.add(cells, {**facts, "because": boundary.sentence}):
            self.observer.message(
                f"round {arm.round}: {boundary.best} is at the edge, so {arm.name} "
                f"({arm.value:.4g}) is added for the same seeds"
            )
            self._take_in(grown)

    def _catch_up(self) -> None:
        grown = plan_on_record(self.plan, self.study_file.study, self.store)
        if len(grown.arms) > len(self.plan.arms):
            self._take_in(grown)

    def _take_in(self, grown: Plan) -> None:
        self.optuna_study.add(grown.cells)
        self.optuna_study.enqueue(fingerprint=grown.fingerprint)
        self.store.link_optuna(self.optuna_study.numbers())
        try:
            write_plan(self.study_file, grown, self.folder)
        except OSError as error:  # the next coordinator does it
            _log.warning("%s: %s", self.folder.plan, error)
        self.plan = grown

    def _has(self, cell: str) -> bool:
        return any(each.id == cell for each in self.plan.cells)
