"""What every figure is: a drawing, its conclusion in words, and exactly the rows that it draws.

Colours are Okabe and Ito's, and no arm is told by its colour alone: each has a marker and a line
style of its own. A drawing becomes SVG with literal colours for a file, or with the page's custom
properties in their place, so that the page decides between light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweeper.report.columns import Table
from sweeper.selection.comparison import Comparison

WIDTH = 5.0
"""Inches; narrow, so that the letters stay readable on a telephone."""

PAPER, INK, MUTED, GRID, FAILED = "#ffffff", "#1b1f24", "#59626d", "#d4d9df", "#b3001b"
ARMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))

_PROPERTIES: Mapping[str, str] = MappingProxyType(
    {PAPER: "paper", INK: "ink", MUTED: "muted", GRID: "grid", FAILED: "failed"}
    | {colour: f"arm-{number}" for number, colour in enumerate(ARMS)}
)
"""The page's custom property for each colour."""

_STYLE: Mapping[str, object] = MappingProxyType(
    {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.labelsize": 9,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.facecolor": PAPER,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "figure.facecolor": PAPER,
        "figure.constrained_layout.use": True,
        "text.parse_math": False,
        "svg.fonttype": "none",
    }
)
"""Text stays text: it can be selected, searched and enlarged. DejaVu Sans, which the layout is
made with, is wider than what browsers take in its place, so that nothing comes to overlap.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One figure.

    Attributes:
        name: Of its files, and of its place in the page.
        conclusion: What it shows, in sentences: the caption, and the alternative to looking.
        reading: How to read it: what dots, lines and crosses are.
        table: Exactly what is drawn.
    """

    name: str
    title: str
    conclusion: str
    reading: str
    table: Table
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStyle:
    """How one arm is drawn, in every figure alike."""

    label: str
    colour: str
    marker: str
    dashes: str | tuple[int, tuple[int, ...]]


@contextmanager
def in_style() -> Iterator[None]:
    """Draws in this style within, whatever the user's own settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


def axes_of(height: float, *, rows: int = 1, ratios: Sequence[float] = (1,)) -> tuple[Axes, ...]:
    """Returns the panels of a new figure, from top to bottom.

    Args:
        height: Inches.
    """
    figure = Figure(figsize=(WIDTH, height))
    grid = figure.add_gridspec(rows, 1, height_ratios=ratios)
    return tuple(figure.add_subplot(grid[row]) for row in range(rows))


def figure_of(axes: Axes) -> Figure:
    """Returns the figure that the panel is part of."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def legend_above(axes: Axes) -> None:
    """Puts the arms' names above the panels, out of the way of what is drawn."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = 2 if len(labels) == 4 else min(3, len(labels))
        figure_of(axes).legend(
            handles, labels, loc="outside upper left", ncols=columns, handlelength=3
        )


def arms_in_order(found: Comparison) -> list[str]:
    """Returns the arms by the factor where it has an order, else the baseline first."""
    summaries = [found.baseline, *(arm.summary for arm in found.arms)]
    values = [summary.value for summary in summaries]
    if all(isinstance(value, int | float) for value in values):
        summaries.sort(key=lambda summary: float(summary.value))
    return [summary.arm for summary in summaries]


def arm_styles(found: Comparison) -> Mapping[str, ArmStyle]:
    """Returns each arm's style, the baseline's always the first."""
    summaries = [found.baseline, *(arm.summary for arm in found.arms)]
    return {
        summary.arm: ArmStyle(
            label=f"{summary.arm} ({value_text(summary.value)})",
            colour=ARMS[place % len(ARMS)],
            marker=_MARKERS[place % len(_MARKERS)],
            dashes=_DASHES[place % len(_DASHES)],
        )
        for place, summary in enumerate(summaries)
    }


def value_text(value: float | str) -> str:
    """Returns the factor's value as it is written beside an arm."""
    return value if isinstance(value, str) else f"{value:g}"


def thousands(value: float, _position: object = None) -> str:
    """Returns a count as an axis has it: 500, 20k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def svg_text(drawing: Drawing) -> str:
    """Returns the drawing as SVG with literal colours: the same text for the same rows."""
    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with in_style(), mpl.rc_context({"svg.hashsalt": drawing.name}):
        drawing.figure.savefig(stream, format="svg", metadata=nothing)
    drawing.figure.set_layout_engine("none")  # the places that were found stay
    return _numbered(stream.getvalue())


def _numbered(svg: str) -> str:
    """Returns the SVG with clip paths and markers numbered.

    matplotlib names them by a digest of their place, whose last bit the layout does not settle.
    """
    names = dict.fromkeys(re.findall(r'\bid="([mp][0-9a-f]{10})"', svg))
    numbers = {name: f"{name[0]}{number}" for number, name in enumerate(names, start=1)}
    return re.sub(r"\b[mp][0-9a-f]{10}\b", lambda m: numbers.get(m[0], m[0]), svg)


def png_file(drawing: Drawing) -> bytes:
    """Returns the drawing as a PNG file."""
    stream = io.BytesIO()
    with in_style():
        drawing.figure.savefig(stream, format="png", dpi=160, metadata={"Software": None})
    return stream.getvalue()


def svg_element(name: str, svg: str) -> str:
    """Returns a drawing's SVG as an element for the page, in the page's colours.

    It takes the page's width, and refers to no element but its own.

    Args:
        name: The drawing's.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"\n\s*", "\n", svg)
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for colour, variable in _PROPERTIES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    head = (
        f'<svg class="drawing" role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-conclusion" '
    )
    return re.sub(r'<svg width="[^"]*" height="[^"]*" ', head, svg, count=1)
