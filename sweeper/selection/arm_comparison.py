"""Everything that is found out about one arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.selection.arithmetic import arithmetic_alone
from sweeper.selection.case import Case
from sweeper.selection.differences import Difference, adjust_family, compare_with_baseline
from sweeper.selection.evidence import BASELINE, StudyEvidence, StudyKind
from sweeper.selection.examples import ExampleDifference, compare_examples, left_out
from sweeper.selection.gates import (
    GateBreak,
    applied_note,
    baseline_breaks,
    gate_breaks,
    pairings,
)
from sweeper.selection.noise_floor import floor_nats
from sweeper.selection.resolution import resolution_of
from sweeper.selection.retention import Retention, guard_retention
from sweeper.selection.slope import Slope, final_slope
from sweeper.selection.summaries import ArmSummary, remarks, summarise
from sweeper.selection.throughput import throughput
from sweeper.selection.time_to_target import TimeToTarget, find_target, time_to_target
from sweeper.selection.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One arm's findings.

    Attributes:
        difference: None when a gate was broken: no difference is reported then.
        notes: Sentences that weaken or explain the numbers, and change no verdict.
        resolution: What difference the study could have seen, in words.
        examples: Record by record, secondary; None where that is not on record.
        examples_left_out: Why there are none, where what was on record is gone or changed.
        time_to_target: None without a target, and when a gate was broken.
        slope: Of the loss at the end; None where evaluations are too far apart.
        not_eligible_because: Why the arm cannot be chosen, whatever its losses; empty if it can.
    """

    arm: str
    summary: ArmSummary
    breaks: tuple[GateBreak, ...]
    difference: Difference | None
    retention: Retention
    verdict: Verdict
    notes: tuple[str, ...]
    resolution: str
    examples: ExampleDifference | None
    time_to_target: TimeToTarget | None
    slope: Slope | None
    not_eligible_because: tuple[str, ...]
    examples_left_out: str | None = None

    @property
    def is_eligible(self) -> bool:
        """Whether the arm may be chosen."""
        return not self.not_eligible_because


def compare_arms(study: StudyEvidence) -> tuple[ArmComparison, ...]:
    """Returns the findings of every arm but the baseline, in declared order."""
    shared = baseline_breaks(study)
    breaks = {arm.name: gate_breaks(study, arm.name) + shared for arm in study.rivals}
    untestable = frozenset(name for name, broken in breaks.items() if broken)
    comparable = [name for name in breaks if name not in untestable]
    found = {name: compare_with_baseline(study, name) for name in comparable}
    adjusted = adjust_family(study, found)
    floor = floor_nats(study)
    return tuple(
        _compare(
            Case(
                study=study,
                arm=name,
                breaks=broken,
                difference=adjusted.get(name),
                examples=_examples(study, name, adjusted.get(name)),
                noise_floor=floor,
            )
        )
        for name, broken in breaks.items()
    )


def _examples(
    study: StudyEvidence, arm: str, difference: Difference | None
) -> ExampleDifference | None:
    return None if difference is None else compare_examples(study, arm, difference)


def _left_out(case: Case) -> str | None:
    return None if case.difference is None else left_out(case.study, case.arm, case.difference)


def _compare(case: Case) -> ArmComparison:
    study, arm = case.study, case.arm
    summary = summarise(study, arm)
    retention = guard_retention(study, arm, is_comparable=not case.breaks)
    return ArmComparison(
        arm=arm,
        summary=summary,
        breaks=case.breaks,
        difference=case.difference,
        retention=retention,
        verdict=judge(case),
        notes=_notes(case, summary),
        resolution=resolution_of(study, arm, case.difference),
        examples=case.examples,
        time_to_target=None if case.breaks else arm_time_to_target(study, arm),
        slope=final_slope(study, arm),
        not_eligible_because=_obstacles(summary, case.breaks, retention),
        examples_left_out=_left_out(case),
    )


def arm_time_to_target(study: StudyEvidence, arm: str) -> TimeToTarget | None:
    """Returns when the arm's trials reached the study's target; None without one."""
    return time_to_target(
        study, arm, find_target(study), with_seconds=not throughput(study).is_noisy
    )


def _obstacles(
    summary: ArmSummary, breaks: tuple[GateBreak, ...], retention: Retention
) -> tuple[str, ...]:
    found = (
        (bool(breaks), "not comparable"),
        (summary.n_stopped > 0, f"{summary.n_stopped} of {summary.n_planned} trials stopped"),
        (summary.n_missing > 0, f"{summary.n_missing} of {summary.n_planned} trials missing"),
        (not retention.allows_selection, f"retention guard {retention.verdict}"),
    )
    return tuple(reason for applies, reason in found if applies)


def _round(case: Case, summary: ArmSummary) -> tuple[str, ...]:
    if summary.round == 0:
        return ()
    text = (
        f"{case.arm} is an extension, added in round {summary.round} because the best rate was at "
        f"the edge; the test counts {len(case.study.rivals)} arms."
    )
    return (text,)


def _updates_differ(case: Case) -> tuple[str, ...]:
    """Says that arms of other batch sizes make other numbers of updates."""
    study = case.study
    pairs = zip(study.cells_of(case.arm), study.cells_of(BASELINE), strict=True)
    both = [pair for pair in pairs if all(cell.is_completed for cell in pair)]
    if study.kind is not StudyKind.BATCH_SIZE or not both:
        return ()
    mine, theirs = (
        _range([cell.windows - cell.skipped for cell in cells]) for cells in zip(*both, strict=True)
    )
    text = (
        f"The number of updates differs: {case.arm} made {mine} where baseline made {theirs}, from "
        "the same target tokens."
    )
    return (text,)


def _range(counts: Sequence[int]) -> str:
    lowest, highest = min(counts), max(counts)
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _notes(case: Case, summary: ArmSummary) -> tuple[str, ...]:
    arm, difference = case.arm, case.difference
    notes = [
        f"{arm}, seed {pairing.cell.seed}: {note}."
        for pairing in pairings(case.study, arm)
        if (note := applied_note(pairing)) is not None
    ]
    notes += [*remarks(summary), *_round(case, summary), *_updates_differ(case)]
    if (arithmetic := arithmetic_alone(case.study, arm)) is not None:
        notes.append(arithmetic)
    if difference is not None and difference.correlation is not None and difference.correlation < 0:
        notes.append(f"Pairing by seed did not help {arm}: r = {difference.correlation:.2f}.")
    mean = None if difference is None else difference.mean
    if mean is not None and abs(mean) < case.noise_floor:
        notes.append(f"The mean difference of {arm} is below the noise floor.")
    return tuple(notes)
