"""`sweeper compare`: what the study shows, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.output import name_next, print_json, write
from sweeper.report.columns import NATS
from sweeper.report.comparison import compare as compare_study
from sweeper.report.comparison import frozen_choice, taken_choice
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import StudyKind
from sweeper.selection.frozen import Frozen
from sweeper.selection.refrozen import NOT_AS_FROZEN, SHOWN_AS_FROZEN, other_conclusions
from sweeper.selection.statistics import Interval
from sweeper.selection.summaries import ArmSummary
from sweeper.selection.wording import seeds_text
from sweeper.study.taken_choice import TakenChoice


def compare(study: Study, as_json: AsJson = False) -> None:
    """Print the answer, then what stands behind it.

    The verdict on every arm in words, losses and paired differences, retention, what a study of
    this size could have seen. While trials are missing the answer says so.
    """
    found, taken, frozen = compare_study(study), taken_choice(study), frozen_choice(study)
    if as_json:
        origin = {} if taken is None else {"baseline_from": taken.to_facts()}
        print_json({**found.to_json(), **origin, **_frozen_facts(found, frozen)})
    else:
        print_comparison(found, taken, frozen)
    name_next("trials", study)


def _frozen_facts(found: Comparison, frozen: Frozen | None) -> dict[str, object]:
    if frozen is None:
        return {}
    facts = {"arm": frozen.arm, "sentence": frozen.sentence, "answer": frozen.answer}
    return {"frozen": {**facts, "not_as_frozen": list(other_conclusions(frozen, found))}}


def print_comparison(
    found: Comparison, taken: TakenChoice | None = None, frozen: Frozen | None = None
) -> None:
    """Prints the comparison for people: the answer first, then what stands behind it.

    Args:
        taken: The earlier choice that the baseline is from.
        frozen: The frozen choice, which stands whatever the record gives now.
    """
    write(f"Question: {found.question_text}")
    answer = found.answer.sentence if frozen is None else frozen.answer
    write(f"Answer:   {answer}", style="bold")
    if frozen is not None and (other := other_conclusions(frozen, found)):
        write(f"{NOT_AS_FROZEN}: {' '.join(other)} {SHOWN_AS_FROZEN}", style="bold")
    if taken is not None:
        write(f"Baseline: {taken.origin.removeprefix('baseline ')}")
    write("\nVerdicts", style="bold")
    for arm in found.arms:
        write(f"{arm.arm}: {arm.verdict.label}\n{arm.verdict.sentence}")
    _print_numbers(found)
    for title, lines in _findings(found, frozen):
        _print_lines(title, lines)


def _print_numbers(found: Comparison) -> None:
    where = "where it was lowest" if found.is_at_best else "at the end"
    write(f"\nValidation loss {where}, nats per target token, completed trials", style="bold")
    losses = [_losses(summary, found) for summary in _in_order(found)]
    print_columns(columns_from(losses, units={"mean": NATS}))
    write(
        f"\nArm - baseline, nats per target token, paired over {seeds_text(len(found.seeds))}; "
        "negative: the arm is lower",
        style="bold",
    )
    print_columns(columns_from([_difference(arm) for arm in found.arms]))


def _print_lines(title: str, lines: Sequence[str]) -> None:
    write(f"\n{title}", style="bold")
    for line in lines:
        write(line)


def _in_order(found: Comparison) -> list[ArmSummary]:
    """Returns the arms by the factor where it has an order, else the baseline first."""
    summaries = [found.baseline, *(arm.summary for arm in found.arms)]
    return sorted(summaries, key=lambda each: each.value if isinstance(each.value, float) else 0.0)


def _losses(summary: ArmSummary, found: Comparison) -> dict[str, object]:
    value = summary.value if isinstance(summary.value, str) else f"{summary.value:g}"
    made = {} if found.kind is StudyKind.RATE else {"updates": summary.windows - summary.skipped}
    return {
        "arm": summary.arm,
        found.factor.rpartition(".")[2]: value,
        **made,
        "completed": f"{summary.n_completed} of {summary.n_planned}",
        "stopped": summary.n_stopped,
        "missing": summary.n_missing,
        "mean": summary.mean,
        "sd": _short(summary.sd),
    }


def _difference(arm: ArmComparison) -> dict[str, object]:
    found = arm.difference
    return {
        "arm": arm.arm,
        "pairs": None if found is None else found.n,
        "difference": None if found is None else _signed(found.mean),
        "95 % interval": None if found is None else _interval(found.interval_95),
        "Holm p": None if found is None else _short(found.p_holm),
        "lower in": None if found is None else f"{found.lower_in} of {found.n}",
        "retention": arm.retention.verdict.value.replace("_", " "),
    }


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.2g}"


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.4f}"


def _interval(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval.low:+.4f} to {interval.high:+.4f}"


def _findings(found: Comparison, frozen: Frozen | None) -> Iterator[tuple[str, Sequence[str]]]:
    broken = [f"{b.arm}, seed {b.seed}: {b.sentence}." for arm in found.arms for b in arm.breaks]
    if broken:
        yield "Gates that were broken", broken
    notes = [*found.baseline_notes, *(note for arm in found.arms for note in arm.notes)]
    if found.effective_decay is not None:
        notes.append(found.effective_decay.sentence)
    if notes:
        yield "Notes", notes
    if found.noise_floor is not None:
        yield "Noise floor", [found.noise_floor.sentence]
    yield "Retention", list(dict.fromkeys(arm.retention.sentence for arm in found.arms))
    where = [] if found.boundary is None else [found.boundary.sentence]
    if rates := [*where, *found.rate_notes]:
        yield "Range", rates
    yield "Resolution", [arm.resolution for arm in found.arms]
    if ways := list(_along_the_way(found)):
        yield "Time to target", ways
    if records := list(_record_by_record(found)):
        yield "Record by record", records
    choice = found.choice.sentence if frozen is None else f"{frozen.sentence} It is frozen."
    yield "Choice", [choice]


def _record_by_record(found: Comparison) -> Iterator[str]:
    for arm in found.arms:
        if arm.examples is not None:
            yield arm.examples.sentence
        if arm.examples_left_out is not None:
            yield arm.examples_left_out


def _along_the_way(found: Comparison) -> Iterator[str]:
    """Yields when arms reached the target, what that does not mean, and how steep the end was."""
    times = [found.baseline_time_to_target, *(arm.time_to_target for arm in found.arms)]
    yield found.target.sentence
    yield from (time.sentence for time in times if time is not None)
    if any(times) and found.target_caveat is not None:
        yield found.target_caveat
    if found.throughput.sentence is not None:
        yield found.throughput.sentence
    slopes = [found.baseline_slope, *(arm.slope for arm in found.arms)]
    yield from (slope.sentence for slope in slopes if slope is not None)
