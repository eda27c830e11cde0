"""Gradient norms before clipping, how often they were clipped, and windows without an update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import cast

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sweeper.report.columns import Column, Table
from sweeper.report.figures.drawing import (
    INK,
    ArmStyle,
    Drawing,
    arm_styles,
    arms_in_order,
    axes_of,
    figure_of,
    in_style,
    legend_above,
    thousands,
)
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import REPEAT
from sweeper.selection.statistics import finite

Row = Mapping[str, object]

MOST_STRETCHES = 30
"""Stretches that a trial is divided into: enough to see where, few enough to print."""

COLUMNS = (
    Column(name="trial", kind="text", unit=None, meaning="arm and seed"),
    Column(
        name="target_tokens_read", kind="integer", unit="target tokens",
        meaning="at the end of the stretch",
    ),
    Column(name="windows", kind="integer", unit="windows", meaning="windows of the stretch"),
    Column(
        name="gradient_norm", kind="number", unit=None,
        meaning="median global norm before clipping; empty without a finite one",
    ),
    Column(
        name="clipped_share", kind="number", unit=None,
        meaning="share of its updates whose gradient was scaled down",
    ),
    Column(
        name="skipped", kind="integer", unit="windows", meaning="windows that ended in no update"
    ),
)  # fmt: skip


def gradient_norms(
    updates: Sequence[Row], found: Comparison, *, clip_norm: float | None
) -> Drawing | None:
    """Returns the figure; None before the first window."""
    order = arms_in_order(found)
    grouped = _by_trial(updates).items()
    by_trial = dict(sorted(grouped, key=lambda each: order.index(_arm(each[0]))))
    stretches = {trial: _stretches(rows) for trial, rows in by_trial.items()}
    if not stretches:
        return None
    styles = arm_styles(found)
    with in_style():
        norms, clips, skips = axes_of(4.6, rows=3, ratios=(1, 0.6, 0.28))
        named: set[str] = set()
        for trial, rows in stretches.items():
            style = _style(trial, styles)
            label = "_" if style.label in named else style.label
            named.add(style.label)
            _draw(norms, rows, "gradient_norm", style, label)
            _draw(clips, rows, "clipped_share", style, "_")
            _draw_skips(skips, rows, style)
        _finish(norms, clips, skips, clip_norm)
    return Drawing(
        name="gradient-norms",
        title="Gradient norms, clipping and skipped windows",
        conclusion=_conclusion(by_trial, clip_norm),
        reading=(
            f"One line per trial, over at most {MOST_STRETCHES} stretches of its windows. Top: the "
            "stretch's median norm before clipping, with the threshold dashed. Middle: the share "
            "of its updates that were scaled down to the threshold; at 100 % the rate no longer "
            "means the same. Bottom: a tick where a window ended in no update."
        ),
        table=Table(rows=[row for rows in stretches.values() for row in rows], columns=COLUMNS),
        figure=figure_of(norms),
    )


def _by_trial(updates: Sequence[Row]) -> Mapping[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in updates:
        if row["arm"] != REPEAT:
            grouped[str(row["trial"])].append(row)
    return grouped


def _arm(trial: str) -> str:
    return trial.partition("/")[0]


def _stretches(rows: Sequence[Row]) -> list[Row]:
    size = -(-len(rows) // MOST_STRETCHES)
    return [_stretch(rows[first : first + size]) for first in range(0, len(rows), size)]


def _stretch(rows: Sequence[Row]) -> Row:
    norms = finite(cast("float | None", row["gradient_norm"]) for row in rows)
    ran = [row for row in rows if row["ran"]]
    return {
        "trial": rows[0]["trial"],
        "target_tokens_read": rows[-1]["target_tokens_read"],
        "windows": len(rows),
        "gradient_norm": median(norms) if norms else None,
        "clipped_share": sum(bool(row["clipped"]) for row in ran) / len(ran) if ran else None,
        "skipped": len(rows) - len(ran),
    }


def _style(trial: str, styles: Mapping[str, ArmStyle]) -> ArmStyle:
    return styles[_arm(trial)]


def _draw(axes: Axes, rows: Sequence[Row], name: str, style: ArmStyle, label: str) -> None:
    known = [(row["target_tokens_read"], row[name]) for row in rows if row[name] is not None]
    axes.plot(
        [cast("int", x) for x, _ in known], [cast("float", y) for _, y in known],
        color=style.colour, linestyle=style.dashes, linewidth=1.1, label=label,
        marker=style.marker if len(known) == 1 else "", markersize=4,
    )  # fmt: skip


def _draw_skips(axes: Axes, rows: Sequence[Row], style: ArmStyle) -> None:
    places = [cast("int", row["target_tokens_read"]) for row in rows if row["skipped"]]
    axes.plot(
        places, [0.5] * len(places), linestyle="", marker="|", markersize=12, color=style.colour
    )


def _finish(norms: Axes, clips: Axes, skips: Axes, clip_norm: float | None) -> None:
    if clip_norm is not None:
        norms.axhline(clip_norm, color=INK, linestyle=(0, (4, 3)), linewidth=1)
    if any(value > 0 for line in norms.lines for value in _heights(line.get_ydata())):
        norms.set_yscale("log")
        norms.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        norms.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        norms.yaxis.set_minor_formatter(NullFormatter())
    norms.set_ylabel("gradient norm")
    clips.set_ylim(-0.05, 1.05)
    clips.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    clips.set_ylabel("clipped")
    skips.set_ylim(0, 1)
    skips.set_yticks([])
    skips.set_ylabel("skipped", rotation=0, ha="right", va="center")
    skips.grid(visible=False)
    skips.set_xlabel("target tokens read")
    if not any(len(_heights(line.get_ydata())) for line in skips.lines):
        skips.text(0.5, 0.5, "none", transform=skips.transAxes, ha="center", va="center")
    high = max(panel.get_xlim()[1] for panel in (norms, clips, skips))
    for panel in (norms, clips, skips):
        panel.set_xlim(0, high)
        panel.xaxis.set_major_formatter(FuncFormatter(thousands))
        panel.tick_params(labelbottom=panel is skips)
    legend_above(norms)


def _heights(values: object) -> list[float]:
    return [float(value) for value in cast("Sequence[float]", values)]


def _conclusion(by_trial: Mapping[str, Sequence[Row]], clip_norm: float | None) -> str:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for trial, rows in by_trial.items():
        ran = [row for row in rows if row["ran"]]
        clipped = sum(bool(row["clipped"]) for row in ran)
        for place, count in enumerate((clipped, len(ran), len(rows) - len(ran))):
            counts[_arm(trial)][place] += count
    told = [f"{arm} {c} of {ran} updates" for arm, (c, ran, _) in counts.items()]
    text = "Gradients were never clipped: the study sets no threshold."
    if clip_norm is not None:
        text = f"Clipped at a norm of {clip_norm:g}: {', '.join(told)}."
    skipped = [f"{arm} {count}" for arm, (_, _, count) in counts.items() if count]
    end = (
        f"Windows without an update: {', '.join(skipped)}." if skipped else "No window was skipped."
    )
    return f"{text} {end}"
