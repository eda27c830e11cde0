"""Everything that is found out about one arm."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.selection.case import Case
from sweeper.selection.differences import Difference, adjust_family, compare_with_baseline
from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.gates import (
    GateBreak,
    applied_note,
    baseline_breaks,
    gate_breaks,
    pairings,
)
from sweeper.selection.noise_floor import floor_nats
from sweeper.selection.retention import Retention, guard_retention
from sweeper.selection.summaries import ArmSummary, remarks, summarise
from sweeper.selection.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One arm's findings.

    Attributes:
        difference: None when a gate was broken: no difference is reported then.
        notes: Sentences that weaken or explain the numbers, and change no verdict.
        not_eligible_because: Why the arm cannot be chosen, whatever its losses; empty if it can.
    """

    arm: str
    summary: ArmSummary
    breaks: tuple[GateBreak, ...]
    difference: Difference | None
    retention: Retention
    verdict: Verdict
    notes: tuple[str, ...]
    not_eligible_because: tuple[str, ...]

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
                noise_floor=floor,
            )
        )
        for name, broken in breaks.items()
    )


def _compare(case: Case) -> ArmComparison:
    summary = summarise(case.study, case.arm)
    retention = guard_retention(case.study, case.arm)
    return ArmComparison(
        arm=case.arm,
        summary=summary,
        breaks=case.breaks,
        difference=case.difference,
        retention=retention,
        verdict=judge(case),
        notes=_notes(case, summary),
        not_eligible_because=_obstacles(summary, case.breaks, retention),
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


def _notes(case: Case, summary: ArmSummary) -> tuple[str, ...]:
    arm, difference = case.arm, case.difference
    notes = [
        f"{arm}, seed {pairing.cell.seed}: {note}."
        for pairing in pairings(case.study, arm)
        if (note := applied_note(pairing)) is not None
    ]
    notes += remarks(summary)
    if difference is not None and difference.correlation is not None and difference.correlation < 0:
        notes.append(f"Pairing by seed did not help {arm}: r = {difference.correlation:.2f}.")
    mean = None if difference is None else difference.mean
    if mean is not None and abs(mean) < case.noise_floor:
        notes.append(f"The mean difference of {arm} is below the noise floor.")
    return tuple(notes)
