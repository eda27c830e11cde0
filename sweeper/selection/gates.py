"""The gates: what must be equal between an arm and the baseline before they are compared.

Each gate looks at one cell and at the baseline's cell of the same seed, and names what differs or
returns None. What a trial did not reach is not held against it, unless it claims to be complete:
a completed trial without a quantity breaks the gate that needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from sweeper.selection.evidence import (
    BASELINE,
    CellEvidence,
    EvaluationSet,
    StudyEvidence,
    StudyKind,
    TrialPrecision,
)

APPLIED_TOLERANCE_PER_MILLE = 5
"""Applied target tokens may differ by 0.5 %."""

_LOSS_TOLERANCE: Mapping[TrialPrecision, float] = MappingProxyType(
    {
        TrialPrecision.FLOAT32: 1e-6,
        TrialPrecision.BFLOAT16: 1e-3,
        TrialPrecision.FLOAT16: 1e-3,
    }
)
_ENVIRONMENT_MAY_DIFFER: Mapping[StudyKind, frozenset[str]] = MappingProxyType(
    {
        StudyKind.RATE: frozenset(),
        StudyKind.BATCH_SIZE: frozenset({"micro_batch"}),
        StudyKind.PRECISION: frozenset({"precision", "loss_scaling"}),
    }
)


class Gate(StrEnum):
    """What must be equal."""

    ONE_FACTOR = "one_factor"
    INITIAL_TENSORS = "initial_tensors"
    RECORD_ORDER = "record_order"
    INITIAL_LOSS = "initial_loss"
    FIRST_WINDOW_LOSS = "first_window_loss"
    EVALUATION_SET = "evaluation_set"
    ENVIRONMENT = "environment"
    TARGET_TOKENS_READ = "target_tokens_read"
    TARGET_TOKENS_APPLIED = "target_tokens_applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBreak:
    """A gate that an arm did not pass in one seed.

    Attributes:
        sentence: What differs, as a clause about "it": the arm.
    """

    gate: Gate
    arm: str
    seed: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The two cells that a gate compares: an arm's, and the baseline's of the same seed."""

    study: StudyEvidence
    cell: CellEvidence
    baseline: CellEvidence

    def unrecorded(self, what: str, mine: object, theirs: object) -> str | None:
        """Names the side that is complete and yet lacks the quantity."""
        if mine is None and self.cell.is_completed:
            return f"it is complete, but {what} was not recorded"
        if theirs is None and self.baseline.is_completed:
            return f"baseline is complete, but {what} was not recorded"
        return None


def one_factor(pairing: Pairing) -> str | None:
    """Two arms differ in the compared key and in keys derived from it, in nothing else."""
    mine, theirs = pairing.cell.configuration, pairing.baseline.configuration
    factor = pairing.study.factor
    if factor not in mine or factor not in theirs:
        return f"{factor} is not in its recorded configuration and in baseline's"
    if mine[factor] == theirs[factor]:
        return f"it has baseline's value of {factor} ({mine[factor]})"
    allowed = pairing.study.derived_keys | {factor}
    key = _first_difference(mine, theirs, allowed)
    if key is None:
        return None
    values = f"{mine.get(key, 'not set')} against {theirs.get(key, 'not set')}"
    return f"it differs in {key} ({values}), which does not follow from {factor}"


def same_configuration(pairing: Pairing) -> str | None:
    """A trial that repeats another was told the same."""
    mine, theirs = pairing.cell.configuration, pairing.baseline.configuration
    if not mine or not theirs:
        return pairing.unrecorded("its configuration", mine or None, theirs or None)
    key = _first_difference(mine, theirs, frozenset())
    if key is None:
        return None
    values = f"{mine.get(key, 'not set')} against {theirs.get(key, 'not set')}"
    return f"it differs in {key} ({values})"


def initial_tensors(pairing: Pairing) -> str | None:
    """The trainable tensors start equal."""
    mine, theirs = pairing.cell.initial_digest, pairing.baseline.initial_digest
    if mine is None or theirs is None:
        return pairing.unrecorded("the digest of its initial tensors", mine, theirs)
    return None if mine == theirs else "it started from other trainable tensors"


def record_order(pairing: Pairing) -> str | None:
    """The records are the same, in the same order, as far as both trials went.

    Rolling digests are compared where both have read the same number of records: windows of a
    batch-size study end at different places.
    """
    cell, baseline = pairing.cell, pairing.baseline
    mine = dict(zip(cell.records_read, cell.record_digests, strict=True))
    theirs = dict(zip(baseline.records_read, baseline.record_digests, strict=True))
    shared = sorted(mine.keys() & theirs.keys())
    differing = next((records for records in shared if mine[records] != theirs[records]), None)
    if differing is not None:
        return f"it had read other records by record {differing}"
    if pairing.study.kind is not StudyKind.BATCH_SIZE and _windows_differ(pairing):
        return "its windows hold other numbers of records"
    return _ends_differ(pairing)


def _windows_differ(pairing: Pairing) -> bool:
    pairs = zip(pairing.cell.records_read, pairing.baseline.records_read, strict=False)
    return any(mine != theirs for mine, theirs in pairs)


def _ends_differ(pairing: Pairing) -> str | None:
    mine = pairing.cell.records_read[-1:] or None
    theirs = pairing.baseline.records_read[-1:] or None
    if mine is None or theirs is None:
        return pairing.unrecorded("its record order", mine, theirs)
    if mine != theirs and pairing.cell.is_completed and pairing.baseline.is_completed:
        return f"it read {mine[0]} records, baseline {theirs[0]}"
    return None


def initial_loss(pairing: Pairing) -> str | None:
    """The losses before the first update are equal, on validation and on retention."""
    cell, baseline = pairing.cell, pairing.baseline
    validation = _initial_loss(pairing, "validation", cell.initial_loss, baseline.initial_loss)
    if validation is not None or not pairing.study.has_retention:
        return validation
    return _initial_loss(
        pairing, "retention", cell.retention_initial_loss, baseline.retention_initial_loss
    )


def _initial_loss(
    pairing: Pairing, split: str, mine: float | None, theirs: float | None
) -> str | None:
    what = f"the {split} loss before the first update"
    if mine is None or theirs is None:
        return pairing.unrecorded(what, mine, theirs)
    tolerance = _loss_tolerance(pairing, theirs)
    return None if _equal(mine, theirs, tolerance) else _differing(what, mine, theirs, tolerance)


def first_window_loss(pairing: Pairing) -> str | None:
    """The first window's loss, computed before any update, is equal.

    Two trials whose first window has no target have no such loss, and are equal in that.
    """
    mine, theirs = pairing.cell.first_window_loss, pairing.baseline.first_window_loss
    what = "the first window's loss"
    if mine is None and theirs is None:
        return None
    if mine is None or theirs is None:
        return pairing.unrecorded(what, mine, theirs)
    tolerance = _loss_tolerance(pairing, theirs)
    return None if _equal(mine, theirs, tolerance) else _differing(what, mine, theirs, tolerance)


def evaluation_set(pairing: Pairing) -> str | None:
    """Every split was scored on the same records, in the same way."""
    mine, theirs = pairing.cell.evaluation_sets, pairing.baseline.evaluation_sets
    if "validation" not in mine and pairing.cell.is_completed:
        return "it is complete, but its evaluation set was not recorded"
    splits = sorted(mine.keys() | theirs.keys())
    return next(filter(None, (_split_differs(pairing, split) for split in splits)), None)


def _split_differs(pairing: Pairing, split: str) -> str | None:
    mine = pairing.cell.evaluation_sets.get(split)
    theirs = pairing.baseline.evaluation_sets.get(split)
    if mine is None or theirs is None:
        return pairing.unrecorded(f"its {split} set", mine, theirs)
    return _set_differs(split, mine, theirs, only_records=_scores_in_own_way(pairing.study))


def _scores_in_own_way(study: StudyEvidence) -> bool:
    return study.kind is StudyKind.PRECISION


def _set_differs(
    split: str, mine: EvaluationSet, theirs: EvaluationSet, *, only_records: bool
) -> str | None:
    if mine.set_digest != theirs.set_digest:
        return f"its {split} loss was measured on other records"
    if mine.target_tokens != theirs.target_tokens:
        counts = f"{mine.target_tokens} against {theirs.target_tokens}"
        return f"its {split} loss was measured on another number of target tokens ({counts})"
    if only_records:
        return None
    if mine.dtype != theirs.dtype:
        return f"its {split} loss was measured in {mine.dtype}, baseline's in {theirs.dtype}"
    if mine.micro_batch != theirs.micro_batch:
        sizes = f"{mine.micro_batch} against {theirs.micro_batch}"
        return f"its {split} loss was measured with another micro-batch ({sizes})"
    return None


def environment(pairing: Pairing) -> str | None:
    """The environment's fields are equal, but for what the factor itself changes."""
    mine, theirs = pairing.cell.environment, pairing.baseline.environment
    if not mine or not theirs:
        return pairing.unrecorded("its environment", mine or None, theirs or None)
    key = _first_difference(mine, theirs, _ENVIRONMENT_MAY_DIFFER[pairing.study.kind])
    if key is None:
        return _computed_otherwise(pairing)
    values = f"{mine.get(key, 'not recorded')} against {theirs.get(key, 'not recorded')}"
    return f"it ran in another environment: {key} ({values})"


def _computed_otherwise(pairing: Pairing) -> str | None:
    """In a precision study each trial has to have computed in the precision that it was told."""
    if pairing.study.kind is not StudyKind.PRECISION:
        return None
    for whose, cell in (("it", pairing.cell), (BASELINE, pairing.baseline)):
        told = cell.configuration.get(pairing.study.factor, "").strip('"')
        found = cell.environment.get("precision", "not recorded")
        if told and found != told:
            return f"{whose} was told {told} and computed in another precision ({found})"
    return None


def target_tokens_read(pairing: Pairing) -> str | None:
    """Completed trials read the budget, to the token."""
    if not (pairing.cell.is_completed and pairing.baseline.is_completed):
        return None
    mine, theirs = pairing.cell.target_tokens_read, pairing.baseline.target_tokens_read
    if mine is None or theirs is None:
        return pairing.unrecorded("the count of target tokens it read", mine, theirs)
    if mine != theirs:
        return f"it read {mine} target tokens, baseline {theirs}"
    planned = pairing.cell.target_tokens_planned
    return None if mine == planned else f"it read {mine} target tokens where {planned} were planned"


def target_tokens_applied(pairing: Pairing) -> str | None:
    """Completed trials trained on the same number of target tokens, within 0.5 %."""
    if not (pairing.cell.is_completed and pairing.baseline.is_completed):
        return None
    mine, theirs = pairing.cell.target_tokens_applied, pairing.baseline.target_tokens_applied
    if mine is None or theirs is None:
        return pairing.unrecorded("the count of target tokens it trained on", mine, theirs)
    if _is_within_tolerance(mine, theirs):
        return None
    return f"{_applied_difference(pairing, mine, theirs)}; tolerance 0.5 %)"


def applied_note(pairing: Pairing) -> str | None:
    """Words a difference in applied target tokens that is within the tolerance."""
    mine, theirs = pairing.cell.target_tokens_applied, pairing.baseline.target_tokens_applied
    both = pairing.cell.is_completed and pairing.baseline.is_completed
    if not both or mine is None or theirs is None or mine == theirs:
        return None
    if not _is_within_tolerance(mine, theirs):
        return None
    return f"{_applied_difference(pairing, mine, theirs)}; within the tolerance of 0.5 %)"


def _is_within_tolerance(mine: int, theirs: int) -> bool:
    return abs(mine - theirs) * 1000 <= APPLIED_TOLERANCE_PER_MILLE * theirs


def _applied_difference(pairing: Pairing, mine: int, theirs: int) -> str:
    share = f"{100 * abs(mine - theirs) / theirs:.2g} % " if theirs else ""
    direction = "fewer" if mine < theirs else "more"
    text = f"it trained on {share}{direction} target tokens ({mine} against {theirs}"
    cell = pairing.cell
    if cell.skipped:
        text += f", {cell.skipped} of its {cell.windows} windows skipped"
    return text


def _equal(mine: float, theirs: float, tolerance: float) -> bool:
    if math.isfinite(mine) and math.isfinite(theirs):
        return abs(mine - theirs) <= tolerance
    return mine == theirs or (math.isnan(mine) and math.isnan(theirs))


def _loss_tolerance(pairing: Pairing, baseline_loss: float) -> float:
    """Between two precisions a share of the loss; between trials in the same one, its rounding."""
    study = pairing.study
    if study.kind is not StudyKind.PRECISION:
        return _LOSS_TOLERANCE[study.precision]
    if pairing.cell.arm == BASELINE:
        return _LOSS_TOLERANCE[TrialPrecision(str(study.baseline.value))]
    return study.precision_tolerance * abs(baseline_loss)


def _differing(what: str, mine: float, theirs: float, tolerance: float) -> str:
    return f"{what} differs ({mine!r} against {theirs!r}, tolerance {tolerance:.4g} nats)"


def _first_difference(
    mine: Mapping[str, str], theirs: Mapping[str, str], allowed: frozenset[str]
) -> str | None:
    keys = sorted((mine.keys() | theirs.keys()) - allowed)
    return next((key for key in keys if mine.get(key) != theirs.get(key)), None)


GateCheck = Callable[[Pairing], str | None]

_ALWAYS: tuple[tuple[Gate, GateCheck], ...] = (
    (Gate.ONE_FACTOR, one_factor),
    (Gate.INITIAL_TENSORS, initial_tensors),
    (Gate.RECORD_ORDER, record_order),
    (Gate.INITIAL_LOSS, initial_loss),
    (Gate.EVALUATION_SET, evaluation_set),
    (Gate.ENVIRONMENT, environment),
    (Gate.TARGET_TOKENS_READ, target_tokens_read),
    (Gate.TARGET_TOKENS_APPLIED, target_tokens_applied),
)
_RATE_ONLY: tuple[tuple[Gate, GateCheck], ...] = ((Gate.FIRST_WINDOW_LOSS, first_window_loss),)


def _same_start(pairing: Pairing) -> str | None:
    alike = pairing.study.starts_alike
    if not alike or pairing.cell.environment != pairing.baseline.environment:
        return None
    return initial_loss(pairing)


_ACROSS_SEEDS: tuple[tuple[Gate, GateCheck], ...] = (
    (Gate.EVALUATION_SET, evaluation_set),
    (Gate.INITIAL_LOSS, _same_start),
)


def checks(kind: StudyKind) -> tuple[tuple[Gate, GateCheck], ...]:
    """Returns the gates of a kind of study: another batch or precision moves the first window."""
    return _ALWAYS + _RATE_ONLY if kind is StudyKind.RATE else _ALWAYS


def gate_breaks(study: StudyEvidence, arm: str) -> tuple[GateBreak, ...]:
    """Returns what keeps the arm from being compared, seed by seed in declared order."""
    return tuple(
        GateBreak(gate=gate, arm=arm, seed=pairing.cell.seed, sentence=sentence)
        for pairing in pairings(study, arm)
        for gate, check in checks(study.kind)
        if (sentence := check(pairing)) is not None
    )


def baseline_breaks(study: StudyEvidence) -> tuple[GateBreak, ...]:
    """Returns what changes in the baseline from seed to seed and must not.

    Evaluation sets do not depend on the seed; if they did, the differences of two seeds would not
    measure the same thing, in any arm. Nor does the loss before the first update where an adapter
    begins at zero, in equal environments.
    """
    started = [cell for cell in study.cells_of(BASELINE) if cell.evaluation_sets]
    pairs = [Pairing(study=study, cell=cell, baseline=started[0]) for cell in started[1:]]
    return tuple(
        GateBreak(
            gate=gate,
            arm=BASELINE,
            seed=pair.cell.seed,
            sentence=f"baseline changes between seeds {started[0].seed} and {pair.cell.seed}: "
            + sentence,
        )
        for pair in pairs
        for gate, check in _ACROSS_SEEDS
        if (sentence := check(pair)) is not None
    )


def pairings(study: StudyEvidence, arm: str) -> tuple[Pairing, ...]:
    """Returns the seeds in which the arm and the baseline were both completed or stopped.

    A trial that is open, lost, limited or failed brings nothing into the comparison: its pair is
    missing, and no gate is asked about it.
    """
    pairs = (
        Pairing(study=study, cell=study.cell(arm, seed), baseline=study.cell(BASELINE, seed))
        for seed in study.seeds
    )
    return tuple(pair for pair in pairs if not (pair.cell.is_missing or pair.baseline.is_missing))
