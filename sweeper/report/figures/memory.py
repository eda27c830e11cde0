"""The peak memory of every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from matplotlib.axes import Axes

from sweeper.report.columns import Column, Table
from sweeper.report.figures.drawing import (
    ARMS,
    INK,
    Drawing,
    axes_of,
    figure_of,
    in_style,
    legend_above,
)

Row = Mapping[str, object]

COLUMNS = (
    Column(name="trial", kind="text", unit=None, meaning="arm and seed"),
    Column(
        name="sampled_bytes",
        kind="integer",
        unit="bytes",
        meaning="largest sampled memory of the trial's processes",
    ),
    Column(
        name="reported_bytes",
        kind="integer",
        unit="bytes",
        meaning="largest memory that the process itself reports",
    ),
)
_MIB = 2**20


def memory(trials: Sequence[Row], updates: Sequence[Row], *, is_rate: bool) -> Drawing | None:
    """Returns the figure; None where no memory is on record.

    Args:
        is_rate: Whether arms differ in nothing that takes memory.
    """
    reported = _reported(updates)
    rows: list[dict[str, object]] = [
        {
            "trial": trial["trial"],
            "sampled_bytes": trial["peak_memory_bytes"],
            "reported_bytes": reported.get(str(trial["trial"])),
        }
        for trial in trials
    ]
    rows = [row for row in rows if row["sampled_bytes"] or row["reported_bytes"]]
    if not rows:
        return None
    with in_style():
        (axes,) = axes_of(1.4 + 0.19 * len(rows))
        _draw(axes, rows, "sampled_bytes", "sampled, all processes", marker="o", colour=ARMS[0])
        _draw(axes, rows, "reported_bytes", "reported by the process", marker="D", colour=ARMS[1])
        axes.set_yticks([-place for place in range(len(rows))], [str(row["trial"]) for row in rows])
        axes.set_xlim(left=0)
        axes.set_xlabel("peak memory, MiB")
        legend_above(axes)
    return Drawing(
        name="memory",
        title="Peak memory",
        conclusion=_conclusion(rows, is_rate=is_rate),
        reading=(
            "One line per trial. Sampled: the memory of all of the trial's processes, looked at "
            "from outside. Reported: what the training process says of itself, on the device where "
            "there is one."
        ),
        table=Table(rows=rows, columns=COLUMNS),
        figure=figure_of(axes),
    )


def _reported(updates: Sequence[Row]) -> Mapping[str, int]:
    peaks: dict[str, int] = {}
    for row in updates:
        found = cast("int | None", row["peak_memory_bytes"]) or 0
        peaks[str(row["trial"])] = max(found, peaks.get(str(row["trial"]), 0))
    return {trial: peak for trial, peak in peaks.items() if peak}


def _draw(  # one kind of memory, word by word
    axes: Axes, rows: Sequence[Row], name: str, label: str, *, marker: str, colour: str
) -> None:
    known = [(cast("int", row[name]) / _MIB, -n) for n, row in enumerate(rows) if row[name]]
    if known:
        axes.plot(
            [x for x, _ in known], [y for _, y in known], linestyle="", marker=marker,
            color=colour, markeredgecolor=INK, markeredgewidth=0.5, label=label,
        )  # fmt: skip


def _conclusion(rows: Sequence[Row], *, is_rate: bool) -> str:
    name = "sampled_bytes" if any(row["sampled_bytes"] for row in rows) else "reported_bytes"
    known = [cast("int", row[name]) / _MIB for row in rows if row[name]]
    low, high = min(known), max(known)
    what = "sampled over a trial's processes" if name == "sampled_bytes" else "as reported"
    span = f"{high:.0f} MiB" if round(low) == round(high) else f"{low:.0f} to {high:.0f} MiB"
    text = f"Peak memory, {what}: {span}."
    if is_rate:
        text += " A rate takes no memory: what differs between arms is the measurement's doing."
    return text
