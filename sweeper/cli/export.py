"""`sweeper export`: the chosen weights in a folder for others, with a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.output import pour, tell
from sweeper.cli.progress import telling
from sweeper.report.dossier import read_dossier
from sweeper.report.model_card import model_card
from sweeper.report.shipping import Standing, shipment
from sweeper.sweep.exporting import ExportOrder
from sweeper.sweep.exporting import export as carry_out


def export(
    study: Study,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Appears whole; must not hold anything yet.")
    ],
    trial: Annotated[
        str | None,
        typer.Option(
            "--trial",
            metavar="TRIAL",
            help="Export this completed trial, as in half/2, and not the first seed of the "
            "frozen choice.",
        ),
    ] = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="Make adapter and base model one model.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Load the exported files and hold their validation loss against the record.",
        ),
    ] = True,
) -> None:
    """Export the chosen weights: a PEFT adapter or a model, its tokenizer and a model card.

    Of the frozen choice, the first declared seed. Its files are held against the digests on
    record, and the exported ones are loaded in a process of their own: a folder whose validation
    loss is not the one on record is not left. The card is made from the record; it states no
    licence.
    """
    dossier = read_dossier(study)
    shipped = shipment(dossier, trial)
    order = ExportOrder(
        folder=dossier.folder,
        trial=shipped.name,
        weights=shipped.weights,
        sha256=shipped.sha256,
        validation_loss=shipped.validation_loss,
        environment=shipped.environment,
        destination=folder,
        merged=merged,
        verify=verify,
    )
    with telling() as progress:
        carry_out(order, lambda done: model_card(dossier, shipped, done), progress=progress)
    pour(f"{folder}\n")
    tell(_remark(shipped.name, shipped.standing))


def _remark(trial: str, standing: Standing) -> str:
    if standing is Standing.FROZEN:
        return f"{trial}, the frozen choice. Add a licence to its README.md before you publish it."
    if standing is Standing.OTHER_SEED:
        return f"{trial}, of the chosen arm, but not the seed that stands for it; the card says so."
    return f"{trial}, not the frozen choice; the card says so."
