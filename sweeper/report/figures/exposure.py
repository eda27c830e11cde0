"""What every trial read: supervised tokens that counted, those that did not, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from matplotlib.ticker import FuncFormatter

from sweeper.report.columns import Column, Table
from sweeper.report.figures.drawing import (
    ARMS,
    FAILED,
    GRID,
    INK,
    PAPER,
    Drawing,
    axes_of,
    figure_of,
    in_style,
    legend_above,
    thousands,
)
from sweeper.selection.gates import APPLIED_TOLERANCE_PER_MILLE

Row = Mapping[str, object]

COLUMNS = (
    Column(name="trial", kind="text", unit=None, meaning="arm and seed"),
    Column(name="outcome", kind="text", unit=None, meaning="how it ended; empty while it has not"),
    Column(
        name="target_tokens_applied",
        kind="integer",
        unit="target tokens",
        meaning="of windows that ended in an update",
    ),
    Column(
        name="target_tokens_skipped",
        kind="integer",
        unit="target tokens",
        meaning="of windows that ended in none",
    ),
    Column(
        name="unsupervised_tokens",
        kind="integer",
        unit="tokens",
        meaning="input tokens without a target: prompts and the first tokens of records",
    ),
    Column(name="padding_tokens", kind="integer", unit="tokens", meaning="computed, and no input"),
)
_PARTS = (
    ("target_tokens_applied", "targets applied", ARMS[0], None),
    ("target_tokens_skipped", "targets skipped", FAILED, "//"),
    ("unsupervised_tokens", "no target", GRID, None),
    ("padding_tokens", "padding", PAPER, None),
)


def exposure(trials: Sequence[Row], *, budget_target_tokens: int) -> Drawing | None:
    """Returns the figure; None before any trial has read a window."""
    rows = [_row(trial) for trial in trials if trial["target_tokens_read"]]
    if not rows:
        return None
    with in_style():
        (axes,) = axes_of(1.5 + 0.21 * len(rows))
        places = [-float(place) for place in range(len(rows))]
        left = [0.0] * len(rows)
        for name, label, colour, hatch in _PARTS:
            widths = [float(cast("int", row[name])) for row in rows]
            if any(widths):
                axes.barh(
                    places, widths, left=left, height=0.72, color=colour, label=label,
                    hatch=hatch, edgecolor=INK, linewidth=0.3,
                )  # fmt: skip
            left = [before + width for before, width in zip(left, widths, strict=True)]
        axes.axvline(budget_target_tokens, color=INK, linestyle=(0, (4, 3)), linewidth=1.2)
        axes.set_yticks(places, [str(row["trial"]) for row in rows])
        axes.set_ylim(places[-1] - 0.7, 0.7)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("tokens")
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        legend_above(axes)
    return Drawing(
        name="exposure",
        title="Tokens by trial",
        conclusion=_conclusion(rows, trials, budget_target_tokens),
        reading=(
            "One bar per trial. The dashed line is the budget of target tokens, which the first "
            "two parts together reach. Applied target tokens may differ from the baseline's by "
            f"{APPLIED_TOLERANCE_PER_MILLE / 10:g} %; beyond that an arm is not comparable."
        ),
        table=Table(rows=rows, columns=COLUMNS),
        figure=figure_of(axes),
    )


def _row(trial: Row) -> dict[str, object]:
    read = cast("int", trial["target_tokens_read"])
    applied = cast("int", trial["target_tokens_applied"])
    return {
        "trial": trial["trial"],
        "outcome": trial["outcome"],
        "target_tokens_applied": applied,
        "target_tokens_skipped": read - applied,
        "unsupervised_tokens": cast("int", trial["input_tokens"]) - read,
        "padding_tokens": trial["padding_tokens"],
    }


def _conclusion(rows: Sequence[Row], trials: Sequence[Row], budget: int) -> str:
    completed = [trial for trial in trials if trial["outcome"] == "completed"]
    full = sum(trial["target_tokens_read"] == budget for trial in completed)
    text = f"No trial completed, so none read all of the {budget} planned target tokens."
    if completed:
        count = f"{full} of {len(completed)} completed trials"
        text = f"{count} read exactly the {budget} planned target tokens."
    skipped = [row for row in rows if row["target_tokens_skipped"]]
    if not skipped:
        return f"{text} No target token was lost to a window without an update."
    names = ", ".join(f"{row['trial']} {row['target_tokens_skipped']}" for row in skipped)
    return f"{text} Target tokens lost to windows without an update: {names}."
