"""`sweeper compare`: what the study shows, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.output import cell, console, name_next, print_json, terminal_table
from sweeper.report.comparison import compare as compare_study
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.comparison import Comparison
from sweeper.selection.statistics import Interval
from sweeper.selection.summaries import ArmSummary


def compare(study: Study, as_json: AsJson = False) -> None:
    """Print the answer, the verdict on every arm, and the numbers behind them."""
    found = compare_study(study)
    if as_json:
        print_json(found.to_json())
    else:
        print_comparison(found)
    name_next(f"sweeper trials {study}")


def print_comparison(found: Comparison) -> None:
    """Prints the comparison for people: the answer first, then what stands behind it."""
    screen = console()
    screen.print(f"Question: {found.question_text}", markup=False)
    screen.print(f"Answer:   {found.answer.sentence}", style="bold", markup=False)
    screen.print()
    screen.print(terminal_table(*_with_names(_arms(found))))
    screen.print(_LEGEND.format(seeds=len(found.seeds)), markup=False)
    for title, lines in _findings(found):
        screen.print(f"\n{title}", style="bold")
        for line in lines:
            screen.print(line, markup=False)


_LEGEND = (
    "Losses and differences in nats per target token on the validation split; difference = arm "
    "- baseline, paired over {seeds} seeds; negative: the arm is lower."
)


def _with_names(
    rows: Sequence[Mapping[str, object]],
) -> tuple[Sequence[Mapping[str, object]], Sequence[str]]:
    return rows, list(rows[0])


def _arms(found: Comparison) -> list[dict[str, object]]:
    rivals = {arm.arm: arm for arm in found.arms}
    summaries = [found.baseline, *(arm.summary for arm in found.arms)]
    summaries.sort(key=lambda each: each.value if isinstance(each.value, float) else 0.0)
    return [_row(summary, rivals.get(summary.arm), found.factor) for summary in summaries]


def _row(summary: ArmSummary, arm: ArmComparison | None, factor: str) -> dict[str, object]:
    value = summary.value if isinstance(summary.value, str) else f"{summary.value:g}"
    difference = None if arm is None else arm.difference
    return {
        "arm": summary.arm,
        factor.rpartition(".")[2]: value,
        "completed": f"{summary.n_completed} of {summary.n_planned}",
        "stopped": summary.n_stopped,
        "mean loss": summary.mean,
        "sd": summary.sd,
        "difference": None if difference is None else _signed(difference.mean),
        "95 % interval": None if difference is None else _interval(difference.interval_95),
        "Holm p": None if difference is None else difference.p_holm,
        "lower in": None if difference is None else f"{difference.lower_in} of {difference.n}",
        "retention": None if arm is None else arm.retention.verdict.value,
        "verdict": "the baseline" if arm is None else arm.verdict.label,
    }


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.4f}"


def _interval(interval: Interval | None) -> str | None:
    return None if interval is None else f"{interval.low:+.4f} to {interval.high:+.4f}"


def _findings(found: Comparison) -> Iterator[tuple[str, list[str]]]:
    yield "Verdicts", [arm.verdict.sentence for arm in found.arms]
    notes = [note for arm in found.arms for note in arm.notes]
    if notes:
        yield "Notes", notes
    yield "Retention", [arm.retention.sentence for arm in found.arms]
    if found.boundary is not None:
        yield "Range", [found.boundary.sentence]
    yield "Resolution", list(_resolution(found))
    yield "Choice", [found.choice.sentence]


def _resolution(found: Comparison) -> Iterator[str]:
    for arm in found.arms:
        resolution = None if arm.difference is None else arm.difference.resolution
        if resolution is None:
            yield f"{arm.arm}: not known from these trials."
        else:
            yield (
                f"{arm.arm}: a true difference of {cell(resolution)} nats would be found in 4 "
                f"studies of 5; {found.smallest_difference:g} was declared to matter."
            )
