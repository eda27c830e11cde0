"""What a comparison is made from: one value per cell, and the study's agreed rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from sweeper.records import OUTCOME_OF, OutcomeKind, Reason
from sweeper.selection.example_losses import ExampleLosses
from sweeper.selection.trajectory import EvaluationPoint

BASELINE = "baseline"
"""The name of the arm that every other arm is compared with."""

REPEAT = "baseline~repeat"
"""Stands where an arm's name stands for the trial that runs the baseline once more: no arm."""


class StudyKind(StrEnum):
    """Which factor is compared; it decides what the gates leave equal."""

    RATE = "rate"
    BATCH_SIZE = "batch_size"
    PRECISION = "precision"


_KIND_OF: Mapping[str, StudyKind] = MappingProxyType(
    {
        "training.learning_rate": StudyKind.RATE,
        "training.records_per_update": StudyKind.BATCH_SIZE,
        "training.precision": StudyKind.PRECISION,
    }
)


def kind_of(factor: str) -> StudyKind:
    """Returns the kind of study that compares this key."""
    return _KIND_OF[factor]


class QuestionKind(StrEnum):
    """How the answer line is worded."""

    RATE_TOO_HIGH = "rate_too_high"
    RATE_TOO_LOW = "rate_too_low"
    WHICH = "which"


class TrialPrecision(StrEnum):
    """Precision the forward passes ran in; it decides how equal two equal losses must be."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One value of the factor.

    Attributes:
        value: The factor's value; a number where it has an order (a rate, a batch size).
        round: 0 for an arm of the study file; an extension has the number of its round.
    """

    name: str
    value: float | str
    round: int = 0

    @property
    def number(self) -> float | None:
        """The value where it is a number."""
        return None if isinstance(self.value, str) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """What a split's loss was measured on, and how."""

    set_digest: str
    target_tokens: int
    dtype: str
    micro_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """What one cell reported; None or empty where it did not get that far.

    Attributes:
        reason: Why its latest attempt ended; None while it is open or was never run.
        detail: The sentence behind the reason.
        initial_loss: Validation loss before the first update, nats per target token.
        first_window_loss: Training loss of the first window, before any update.
        validation_loss: Validation loss at the declared checkpoint.
        retention_initial_loss: Retention loss before the first update.
        retention_loss: Retention loss at the declared checkpoint.
        last_finite_loss: The last finite loss of a trial that was stopped.
        initial_digest: Digest of the initial trainable tensors.
        records_read: Records read up to and with each window, window by window.
        record_digests: Rolling digest of those records, window by window.
        evaluation_sets: By split.
        environment: Fields of the environment record, by name.
        target_tokens_read: Target tokens read in all.
        target_tokens_applied: Target tokens of windows that ended in an update.
        target_tokens_planned: The budget.
        windows: Windows tried.
        skipped: Windows that ended in no update.
        stopped_at_target_tokens: Target tokens read when a stop condition fired.
        window_losses: Training loss of each window tried, in order; None where it had none.
        weights_digest: Digest of the final adapter or model.
        configuration: The resolved configuration, by dotted key, as text.
        evaluations: In order, the one before the first update first.
    """

    arm: str
    seed: int
    reason: Reason | None = None
    detail: str = ""
    initial_loss: float | None = None
    first_window_loss: float | None = None
    validation_loss: float | None = None
    retention_initial_loss: float | None = None
    retention_loss: float | None = None
    last_finite_loss: float | None = None
    initial_digest: str | None = None
    records_read: tuple[int, ...] = ()
    record_digests: tuple[str, ...] = ()
    evaluation_sets: Mapping[str, EvaluationSet] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    target_tokens_read: int | None = None
    target_tokens_applied: int | None = None
    target_tokens_planned: int | None = None
    windows: int = 0
    skipped: int = 0
    stopped_at_target_tokens: int | None = None
    window_losses: tuple[float | None, ...] = ()
    weights_digest: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    evaluations: tuple[EvaluationPoint, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.records_read) == len(self.record_digests)

    @property
    def ending(self) -> Reason | None:
        """The reason as it counts here: no trial is complete without a finite loss."""
        if self.reason is not Reason.BUDGET_REACHED:
            return self.reason
        if self.validation_loss is None:
            return Reason.RESULT_MISSING
        return self.reason if math.isfinite(self.validation_loss) else Reason.NONFINITE_LOSS

    @property
    def outcome(self) -> OutcomeKind | None:
        """The outcome that the ending belongs to."""
        return None if self.ending is None else OUTCOME_OF[self.ending]

    @property
    def is_completed(self) -> bool:
        """Whether it has an endpoint to compare."""
        return self.outcome is OutcomeKind.COMPLETED

    @property
    def is_stopped(self) -> bool:
        """Whether the arm itself failed here."""
        return self.outcome is OutcomeKind.STOPPED

    @property
    def is_missing(self) -> bool:
        """Whether it says nothing about its arm: not run, or ended by something else."""
        return not (self.is_completed or self.is_stopped)

    @property
    def endpoint(self) -> float | None:
        """The validation loss of a completed trial."""
        return self.validation_loss if self.is_completed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEvidence:
    """A study's question, its agreed rules and what its cells reported.

    Attributes:
        factor: Key of the setting that is compared.
        derived_keys: Keys whose value follows from the factor by a named rule.
        arms: In declared order; one is the baseline.
        cells: In any order; a cell that is left out was not run.
        repeat: The baseline's first seed run once more, outside the arms, to measure the noise
            floor; None where the study asks for none.
        repeat_is_open: Whether the repeat may still go on.
        is_at_best: Whether losses are those of the checkpoint with the lowest validation loss, and
            not of the last one.
        smallest_difference: Nats per target token that matter.
        retention_margin: Nats per target token of retention loss that are tolerated.
        precision_tolerance: Share of the initial loss, for studies of precision.
        has_retention: Whether the study measures a retention split.
        closed: Whether no cell will go on; a missing pair then counts as p = 1.
        extensions: Further arms that may follow when the best rate is at the edge.
        target_loss: The loss whose time is taken; None: the baseline's worst final loss.
        weight_decay: Of the optimizer, which takes rate x decay off each weight.
        rate_decays: Whether the schedule falls over the whole budget.
        starts_alike: Whether every seed starts from the same function: an adapter that begins
            at zero.
        examples: None where the losses of single records are not on record.
    """

    question: QuestionKind
    question_text: str
    kind: StudyKind
    factor: str
    derived_keys: frozenset[str] = frozenset()
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    cells: tuple[CellEvidence, ...]
    repeat: CellEvidence | None = None
    repeat_is_open: bool = False
    is_at_best: bool = False
    smallest_difference: float
    retention_margin: float
    precision: TrialPrecision
    precision_tolerance: float
    has_retention: bool
    closed: bool
    extensions: int = 0
    target_loss: float | None = None
    weight_decay: float = 0.0
    rate_decays: bool = False
    starts_alike: bool = False
    examples: ExampleLosses | None = None

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        places = [(cell.arm, cell.seed) for cell in self.cells]
        assert BASELINE in names
        assert len(set(names)) == len(names)
        assert len(set(self.seeds)) == len(self.seeds)
        assert len(set(places)) == len(places)
        assert all(arm in names and seed in self.seeds for arm, seed in places)
        assert self.repeat is None or self.repeat.seed in self.seeds

    def cell(self, arm: str, seed: int) -> CellEvidence:
        """Returns the cell; one that was not run is open."""
        found = (cell for cell in self.cells if cell.arm == arm and cell.seed == seed)
        return next(found, CellEvidence(arm=arm, seed=seed))

    def cells_of(self, arm: str) -> tuple[CellEvidence, ...]:
        """Returns the arm's cells, one per declared seed, in that order."""
        return tuple(self.cell(arm, seed) for seed in self.seeds)

    def all_cells(self) -> tuple[CellEvidence, ...]:
        """Returns every planned cell, arm by arm."""
        return tuple(cell for arm in self.arms for cell in self.cells_of(arm.name))

    @property
    def baseline(self) -> Arm:
        """The arm the others are compared with."""
        return next(arm for arm in self.arms if arm.name == BASELINE)

    @property
    def rivals(self) -> tuple[Arm, ...]:
        """The other arms, in declared order: the family of the multiple test."""
        return tuple(arm for arm in self.arms if arm.name != BASELINE)

    @property
    def is_incomplete(self) -> bool:
        """Whether some cell says nothing about its arm, for now or for good."""
        return any(cell.is_missing for cell in self.all_cells())

    @property
    def is_pending(self) -> bool:
        """Whether some cell may still go on, so that nothing is final."""
        return not self.closed and (self.is_incomplete or self.repeat_is_open)
