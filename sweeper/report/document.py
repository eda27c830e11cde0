"""Writes the report of a study: one page, and its figures as files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.files import write_whole
from sweeper.report.dossier import Dossier, read_dossier
from sweeper.report.figures.drawing import Drawing, png_file, svg_text
from sweeper.report.figures.endpoint_losses import endpoint_losses
from sweeper.report.figures.exposure import exposure
from sweeper.report.figures.gradient_norms import gradient_norms
from sweeper.report.figures.memory import memory
from sweeper.report.figures.retention_by_loss import retention_by_loss
from sweeper.report.figures.seed_differences import seed_differences
from sweeper.report.figures.trajectories import loss_by_seconds, loss_by_tokens
from sweeper.report.formats import csv_text
from sweeper.report.page import Drawn, render
from sweeper.selection.choice import ChoiceKind
from sweeper.selection.evidence import StudyKind

PAGE, FIGURES = "report.html", "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written.

    Attributes:
        figures: Of each, without the ending of its three files.
        awaits_freeze: Whether an arm is chosen and the choice not frozen.
    """

    page: Path
    figures: tuple[Path, ...]
    awaits_freeze: bool


def write_report(
    study: str | Path,
    *,
    out: Path | None = None,
    with_paths: bool = False,
    at: datetime | None = None,
) -> Written:
    """Writes the report of a study, also while it runs; an earlier one in its place is replaced.

    Args:
        out: The folder to write into; None: `report/` in the run folder.
        with_paths: Whether host names, absolute paths and foreign words are shown.
        at: The time that the page gives; None: now.

    Raises:
        NotFound: There is no such study, or it has not begun.
        RunFolderError: The folder cannot be written.
    """
    dossier = read_dossier(study, with_paths=with_paths)
    folder = dossier.folder.report if out is None else out
    drawings = {
        name: None if drawing is None else Drawn(drawing=drawing, svg=svg_text(drawing))
        for name, drawing in draw(dossier).items()
    }
    page = render(dossier, drawings, at=at or datetime.now(UTC))
    try:
        return _write(folder, page, drawings, dossier)
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the report cannot be written",
                where=str(folder),
                got=error.strerror or str(error),
                hint="Name a folder that you may write to with --out",
            )
        ) from error


def draw(dossier: Dossier) -> dict[str, Drawing | None]:
    """Returns the figures by the page's names for them; None where there is nothing to draw."""
    evidence, found = dossier.evidence, dossier.comparison
    trials, updates = dossier.trials.rows, dossier.updates
    budget, clip_norm = dossier.recorded.budget_target_tokens, dossier.settings.training.clip_norm
    return {
        "endpoint_losses": endpoint_losses(evidence, found),
        "seed_differences": seed_differences(found),
        "loss_by_tokens": loss_by_tokens(evidence, found),
        "loss_by_seconds": loss_by_seconds(evidence, found),
        "exposure": exposure(trials, budget_target_tokens=budget),
        "gradient_norms": gradient_norms(updates, found, clip_norm=clip_norm),
        "memory": memory(trials, updates, is_rate=found.kind is StudyKind.RATE),
        "retention_by_loss": retention_by_loss(evidence, found),
    }


def _write(
    folder: Path, page: str, drawings: Mapping[str, Drawn | None], dossier: Dossier
) -> Written:
    figures = folder / FIGURES
    figures.mkdir(parents=True, exist_ok=True)
    written = []
    for name, drawn in drawings.items():
        file = figures / name.replace("_", "-")
        if drawn is None:
            for ending in (".svg", ".png", ".csv"):
                file.with_suffix(ending).unlink(missing_ok=True)
            continue
        write_whole(file.with_suffix(".svg"), drawn.svg, durable=False)
        write_whole(file.with_suffix(".png"), png_file(drawn.drawing), durable=False)
        write_whole(file.with_suffix(".csv"), csv_text(drawn.drawing.table), durable=False)
        written.append(file)
    write_whole(folder / PAGE, page, durable=False)
    choice = dossier.comparison.choice
    is_chosen = choice.arm is not None and choice.kind is not ChoiceKind.NOT_YET
    return Written(
        page=folder / PAGE,
        figures=tuple(written),
        awaits_freeze=is_chosen and dossier.frozen is None,
    )
