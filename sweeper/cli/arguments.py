"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Study = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file or its run folder.")]
Trial = Annotated[str, typer.Argument(metavar="TRIAL", help="Arm and seed, as in double/2.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; null where unknown.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV; empty where unknown.")]
AsParquet = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="Write the table to FILE.")
]
AsMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Print Markdown, rounded, with a caption.")
]
AsLatex = Annotated[
    bool, typer.Option("--latex", help="Print LaTeX for the package booktabs, rounded.")
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,...", help="Print these columns instead."),
]
