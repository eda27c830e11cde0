"""What one arm is judged on."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.selection.differences import ALPHA, Difference
from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.examples import ExampleDifference
from sweeper.selection.gates import GateBreak
from sweeper.selection.statistics import Interval

FEWEST_PAIRS_FOR_A_SELECTION = 5
"""With fewer, a difference is provisional and never selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an arm is judged on.

    Attributes:
        difference: None when a gate was broken.
        examples: None where the losses of single records are not on record.
        noise_floor: Nats per target token; 0 where none was measured.
    """

    study: StudyEvidence
    arm: str
    breaks: tuple[GateBreak, ...]
    difference: Difference | None
    examples: ExampleDifference | None = None
    noise_floor: float = 0.0

    @property
    def cells(self) -> tuple[CellEvidence, ...]:
        """The arm's cells, in declared order of seeds."""
        return self.study.cells_of(self.arm)

    @property
    def baseline_cells(self) -> tuple[CellEvidence, ...]:
        """The baseline's cells, in declared order of seeds."""
        return self.study.cells_of(BASELINE)

    @property
    def missing_pairs(self) -> tuple[tuple[CellEvidence, CellEvidence], ...]:
        """The seeds in which the arm or the baseline says nothing."""
        pairs = zip(self.cells, self.baseline_cells, strict=True)
        return tuple(pair for pair in pairs if pair[0].is_missing or pair[1].is_missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A complete set of pairs: what the statistical verdicts are read from."""

    study: StudyEvidence
    arm: str
    difference: Difference
    mean: float
    error: float
    interval_95: Interval
    interval_90: Interval
    p_holm: float
    noise_floor: float
    examples: ExampleDifference | None

    @property
    def is_reliable(self) -> bool:
        """Whether the difference is shown not to be chance."""
        return self.p_holm <= ALPHA

    @property
    def matters(self) -> bool:
        """Whether it is as large as was declared to matter."""
        return abs(self.mean) >= self.study.smallest_difference

    @property
    def is_below_noise(self) -> bool:
        """Whether two runs of the same baseline differ by more."""
        return abs(self.mean) < self.noise_floor

    @property
    def is_provisional(self) -> bool:
        """Whether too few seeds stand behind it."""
        return self.difference.n < FEWEST_PAIRS_FOR_A_SELECTION


def measured(case: Case) -> Measured:
    """Returns the case's numbers, once the checks have made sure that none is missing."""
    difference = case.difference
    assert difference is not None
    assert difference.mean is not None
    assert difference.standard_error is not None
    assert difference.interval_95 is not None
    assert difference.interval_90 is not None
    assert difference.p_holm is not None
    return Measured(
        study=case.study,
        arm=case.arm,
        difference=difference,
        mean=difference.mean,
        error=difference.standard_error,
        interval_95=difference.interval_95,
        interval_90=difference.interval_90,
        p_holm=difference.p_holm,
        noise_floor=case.noise_floor,
        examples=case.examples,
    )
