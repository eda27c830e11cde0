"""The forms a table is written in: CSV with every digit, Markdown and LaTeX as people read it.

What a text may hold is foreign: a reason in a library's words, a name that somebody chose. Each
form is written so that nothing in it is obeyed: not by a spreadsheet, a renderer or TeX.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from types import MappingProxyType

from sweeper.report.columns import Table
from sweeper.report.sheets import Cell, Sheet

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a cell for a formula."""

_LATEX: Mapping[int, str] = MappingProxyType(
    str.maketrans(
        {
            **{character: f"\\{character}" for character in "_%&#${}"},
            "~": "\\textasciitilde{}",
            "^": "\\textasciicircum{}",
            "\\": "\\textbackslash{}",
            "`": "\\textasciigrave{}",
            "<": "\\textless{}",
            ">": "\\textgreater{}",
            "|": "\\textbar{}",
            "\n": " ",
        }
    )
)
_MARKDOWN: Mapping[int, str] = MappingProxyType(
    str.maketrans(
        {
            **{character: f"\\{character}" for character in "\\|`*[]"},
            "<": "&lt;",
            ">": "&gt;",
            "&": "&amp;",
            "\n": " ",
        }
    )
)
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""Within a word Markdown leaves an underscore alone."""
_MINUS = re.compile(r"(?<![\w.}-])-(?=\.?\d)")


def csv_text(table: Table) -> str:
    """Returns CSV, empty where a value is unknown; numbers as they are, to the last digit.

    Cells are quoted as RFC 4180 says, lines end in a line feed. A text that a spreadsheet would
    take for a formula has an apostrophe before it; JSON and Parquet have it as it is.
    """
    lines = _Lines()
    writer = csv.writer(lines)
    writer.writerow(table.names())
    texts = {column.name for column in table.columns if column.kind == "text"}
    for row in table.records():
        writer.writerow(
            [_harmless(value) if name in texts else value for name, value in row.items()]
        )
    return "".join(lines.written)


class _Lines:
    """Takes the lines of a writer of CSV, which quotes no carriage return but for its own ends."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        """Keeps a line."""
        self.written.append(line.removesuffix("\r\n") + "\n")


def markdown_text(sheet: Sheet) -> str:
    """Returns a table as GitHub and most others read it, its caption above and its notes below."""
    rules = ["---:" if numeric else ":---" for numeric in sheet.numeric]
    lines = [
        f"**{markdown(sheet.caption)}**",
        "",
        _piped([markdown(header) for header in sheet.headers]),
        _piped(rules),
        *(_piped([_markdown_cell(cell) for cell in row]) for row in sheet.rows),
    ]
    for note in sheet.notes:
        lines += ["", markdown(note)]
    return "\n".join(lines) + "\n"


def latex_text(sheet: Sheet) -> str:
    """Returns a table for a document that uses the package booktabs."""
    alignment = "".join("r" if numeric else "l" for numeric in sheet.numeric)
    caption = " ".join([sheet.caption, *sheet.notes])
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption[{{{latex(sheet.caption)}}}]{{{latex(caption)}}}",
        f"\\label{{tab:{sheet.label}}}",
        f"\\begin{{tabular}}{{{alignment}}}",
        "\\toprule",
        _ampersands([latex(header) for header in sheet.headers]),
        "\\midrule",
        *(_ampersands([_latex_cell(cell) for cell in row]) for row in sheet.rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """Returns the text so that TeX sets it as it is; what is not ASCII by its number."""
    ascii_only = "".join(c if c.isascii() else f"[U+{ord(c):04X}]" for c in text)
    return _MINUS.sub("$-$", ascii_only.translate(_LATEX))


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def markdown(text: str) -> str:
    """Returns the text so that a renderer of Markdown shows it as it is, on one line."""
    return _EDGE_UNDERSCORE.sub(r"\\_", text.translate(_MARKDOWN))


def _markdown_cell(cell: Cell) -> str:
    return markdown(cell.text if cell.mark is None else f"{cell.text} ({cell.mark})")


def _piped(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_cell(cell: Cell) -> str:
    raised = "" if cell.mark is None else f"\\textsuperscript{{{latex(cell.mark)}}}"
    return f"{latex(cell.text)}{raised}"


def _ampersands(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
