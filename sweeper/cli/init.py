"""`sweeper init`: a study file to start from."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.output import name_next, write
from sweeper.errors import Fault, RunFolderError, UserError


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to put study.yaml.")
    ] = Path(),
) -> None:
    """Write a study file to start from.

    Its comments say what to edit. A study file that is already there is left as it is.
    """
    if folder.suffix in {".yaml", ".yml"} and not folder.is_dir():
        raise _no_folder(folder)
    file = folder / "study.yaml"
    template = files("sweeper.cli").joinpath("study_template.yaml").read_text(encoding="utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(template)
    except OSError as error:
        raise _refusal(file, error) from error
    write(f"Wrote {file}. Edit its model and its data.")
    name_next("check", file)


def _no_folder(file: Path) -> UserError:
    return UserError(
        Fault(
            what="that is the name of a file, and study.yaml is put into a folder",
            where=str(file),
            hint=f"Name the folder: `sweeper init {shlex.quote(str(file.parent))}`",
        )
    )


def _refusal(file: Path, error: OSError) -> RunFolderError:
    if file.exists():
        return RunFolderError(
            Fault(
                what="a study file is already there, and it is left as it is",
                where=str(file),
                hint="Name another folder: `sweeper init FOLDER`",
            )
        )
    return RunFolderError(
        Fault(
            what="the study file cannot be written",
            where=str(file),
            got=error.strerror or str(error),
            hint="Name a folder that you may write to: `sweeper init FOLDER`",
        )
    )
