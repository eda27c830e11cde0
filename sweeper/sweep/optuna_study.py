"""The study as Optuna's tools read it: the only module that imports optuna.

One Optuna trial per cell, queued in plan order before the first one starts; a cell that is opened
again gets another, which names the one before as `retry_of`. A trial is found by its user attribute
`cell`, never by its number. Optuna stores no reason for a failure and
takes no attribute after a trial was told, so everything else is written first.

Our own tables decide what runs; Optuna mirrors them. Every method may be repeated: what is
already there stays as it is. Methods may be called from several threads.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.exceptions import StorageInternalError
from optuna.samplers import RandomSampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.errors import StoreError, StoreUnavailable
from sweeper.records import OutcomeKind, Reason
from sweeper.store.engine import (
    DATABASE_ERRORS,
    harden,
    may_pass,
    options_with_text,
    tell_lost_answers,
)
from sweeper.store.status import CellStatus
from sweeper.study.plan import Cell

LOWEST_FACTOR = 1e-12
HIGHEST_FACTOR = 1e6
"""Bounds of a numeric factor's distribution: wide, so that further arms fit in later."""


_IDENTITY = frozenset({"cell", "arm", "seed", "fingerprint", "repeat_of"})
"""What a trial is told when it is queued, and another of the same cell as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What Optuna is told of a cell that has ended for good, or that never ran in a closed study.

    Attributes:
        validation_loss: Of the declared checkpoint, nats per target token; finite when completed.
    """

    outcome: OutcomeKind | Literal[CellStatus.NOT_RUN]
    reason: Reason | Literal[CellStatus.NOT_RUN]
    detail: str
    evidence: Mapping[str, str]
    validation_loss: float | None


class OptunaStudy:
    """The Optuna study of one of our studies.

    Raises:
        StoreError: From every method, when the database cannot be written.
    """

    def __init__(
        self, storage: RDBStorage, *, name: str, factor: str, cells: Sequence[Cell]
    ) -> None:
        with _quiet(), _as_store_error("create the Optuna study"):
            self._study = optuna.create_study(
                storage=storage,
                sampler=RandomSampler(seed=0),
                study_name=name,
                direction="minimize",
                load_if_exists=True,
            )
        self._storage = storage
        self._factor = factor
        self._cells = {cell.id: cell for cell in cells}
        self._distribution = distribution_of(cells)
        self._trial_ids: dict[str, int] = {}

    @classmethod
    def open(cls, url: str, *, name: str, factor: str, cells: Sequence[Cell]) -> OptunaStudy:
        """Returns the study, created if need be; only one coordinator at a time may call it."""
        with _as_store_error("open for Optuna"):
            storage = RDBStorage(url, engine_kwargs=options_with_text(url))
        harden(storage.engine)
        tell_lost_answers(storage.engine)  # Optuna would add a trial twice
        return cls(storage, name=name, factor=factor, cells=cells)

    def close(self) -> None:
        """Gives the database connections back."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def enqueue(self, *, fingerprint: str) -> None:
        """Queues a trial for every cell that has none, in plan order."""
        with _as_store_error("queue the trials"):
            known = {_cell_of(trial) for trial in self._study.get_trials(deepcopy=False)}
            for cell in self._cells.values():
                if cell.id not in known:
                    attributes = {
                        "cell": cell.id,
                        "arm": cell.arm,
                        "seed": cell.seed,
                        "fingerprint": fingerprint,
                    }
                    if cell.repeats is not None:
                        attributes["repeat_of"] = cell.repeats
                    self._study.enqueue_trial({self._factor: cell.value}, attributes)
            self._trial_ids = self._find_trials()

    def add(self, cells: Sequence[Cell]) -> None:
        """Takes cells in that were added to the study; `enqueue` queues trials for them."""
        self._cells |= {cell.id: cell for cell in cells}

    def knows(self, cell_id: str) -> bool:
        """Says whether a trial was queued for the cell."""
        return cell_id in self._trial_ids

    def queue_again(self, cell_id: str) -> None:
        """Queues another trial for a cell whose trial has ended; nothing, if it has not."""
        with _as_store_error(f"queue trial {cell_id} again"):
            self._trial_ids = self._find_trials()  # it may be there, and the answer was lost
            ended = self._trial(cell_id)
            if not ended.state.is_finished():
                return
            kept = {name: ended.user_attrs[name] for name in _IDENTITY & ended.user_attrs.keys()}
            self._study.enqueue_trial(
                {self._factor: self._cells[cell_id].value}, kept | {"retry_of": ended.number}
            )
            self._trial_ids = self._find_trials()

    def start(self, cell_id: str) -> None:
        """Turns the cell's trial RUNNING and writes its parameter; ended or running stays so."""
        with _as_store_error(f"start trial {cell_id}"):
            self._start(cell_id)

    def report(self, cell_id: str, *, index: int, validation_loss: float) -> None:
        """Reports one evaluation; a loss that is not finite is left out, its reason says why."""
        if not math.isfinite(validation_loss):
            return
        with _as_store_error(f"report trial {cell_id}"):
            if not self._trial(cell_id).state.is_finished():
                self._storage.set_trial_intermediate_value(
                    self._trial_ids[cell_id], index, validation_loss
                )

    def end(self, cell_id: str, ending: Ending) -> None:
        """Writes why the cell ended, then tells Optuna; once told, nothing changes any more."""
        with _as_store_error(f"end trial {cell_id}"):
            if self._trial(cell_id).state.is_finished():
                return
            self._start(cell_id)
            self._explain(cell_id, ending)
            self._tell(cell_id, ending)

    def has_ended(self, cell_id: str) -> bool:
        """Says whether Optuna was told how the cell ended."""
        with _as_store_error(f"read trial {cell_id}"):
            return self._trial(cell_id).state.is_finished()

    def mirror_choice(self, name: str, choice: Mapping[str, object]) -> None:
        """Writes the frozen choice as that user attribute of the study."""
        with _as_store_error("take over the frozen choice"):
            if self._study.user_attrs.get(name) != choice:
                self._study.set_user_attr(name, dict(choice))

    def numbers(self) -> dict[str, int]:
        """Returns the Optuna trial number of every cell."""
        with _as_store_error("read the trials"):
            return {cell_id: self._trial(cell_id).number for cell_id in self._cells}

    def _trial(self, cell_id: str) -> FrozenTrial:
        return self._storage.get_trial(self._trial_ids[cell_id])

    def _find_trials(self) -> dict[str, int]:
        """Returns the trial id of each cell; of several trials of one cell, the latest."""
        study_id = self._storage.get_study_id_from_name(self._study.study_name)
        return {
            cell_id: self._storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)
            for trial in self._study.get_trials(deepcopy=False)
            if (cell_id := _cell_of(trial)) is not None
        }

    def _start(self, cell_id: str) -> None:
        trial_id = self._trial_ids[cell_id]
        trial = self._trial(cell_id)
        if trial.state is TrialState.WAITING:
            self._storage.set_trial_state_values(trial_id, TrialState.RUNNING)
        if not trial.state.is_finished() and self._factor not in trial.params:
            internal = self._distribution.to_internal_repr(self._cells[cell_id].value)
            self._storage.set_trial_param(trial_id, self._factor, internal, self._distribution)

    def _explain(self, cell_id: str, ending: Ending) -> None:
        attributes = {
            "evidence": {name: str(value) for name, value in sorted(ending.evidence.items())},
            "detail": ending.detail,
            "reason": str(ending.reason),
            "outcome": str(ending.outcome),
        }
        for name, value in attributes.items():
            self._storage.set_trial_user_attr(self._trial_ids[cell_id], name, value)

    def _tell(self, cell_id: str, ending: Ending) -> None:
        number = self._trial(cell_id).number
        if ending.outcome is OutcomeKind.COMPLETED:
            assert ending.validation_loss is not None
            assert math.isfinite(ending.validation_loss)
            self._study.tell(number, ending.validation_loss)
        else:
            self._study.tell(number, state=TrialState.FAIL)


def distribution_of(cells: Sequence[Cell]) -> BaseDistribution:
    """Returns the distribution the factor's values are written under."""
    values = list(dict.fromkeys(cell.value for cell in cells))
    if all(isinstance(value, float) for value in values):
        return FloatDistribution(LOWEST_FACTOR, HIGHEST_FACTOR, log=True)
    return CategoricalDistribution(values)


def _cell_of(trial: FrozenTrial) -> str | None:
    """Returns the trial's cell; None for a trial that somebody added by other means."""
    return trial.user_attrs.get("cell")


@contextlib.contextmanager
def _as_store_error(action: str) -> Iterator[None]:
    try:
        yield
    except (StorageInternalError, *DATABASE_ERRORS) as error:
        cause = error.__cause__ or error
        kind = StoreUnavailable if may_pass(error) or may_pass(cause) else StoreError
        raise kind(f"the study database did not {action}: {cause}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Holds back Optuna's own progress lines, and puts its level back as it was."""
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
