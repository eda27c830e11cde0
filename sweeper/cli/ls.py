"""`sweeper ls`: the studies below a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.output import name_next, print_json, tell, write
from sweeper.cli.plain import plain
from sweeper.cli.wording import counted
from sweeper.report.listing import ListedStudy, studies_below


def ls(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to look; here, if left out.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the studies below a folder.

    Each with its trials by outcome and whether it runs, the one that changed last first.
    """
    found = studies_below(folder)
    if as_json:
        print_json(plain(found))
    else:
        _print(found, folder)
    if found:
        name_next("status", _near(found[0].folder))
    else:
        name_next("init")


def _print(found: Sequence[ListedStudy], folder: Path) -> None:
    if not found:
        write(f"There is no study below {folder.resolve()}")
        return
    print_columns(columns_from([_row(study) for study in found]))
    for study in found:
        if study.problem is not None:
            tell(f"{study.name}: {study.problem}")


def _row(study: ListedStudy) -> dict[str, object]:
    changed = study.changed_at
    return {
        "study": study.name,
        "state": str(study.state),
        "trials": counted(study.counts) or None,
        "last change (UTC)": None if changed is None else f"{changed:%Y-%m-%d %H:%M}",
        "folder": _near(study.folder),
    }


def _near(folder: str) -> str:
    """Returns the folder as somebody who stands here would name it."""
    path, here = Path(folder), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else folder
