"""What the report says of the test split: sealed, or what opening it brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.report.columns import NATS, Column, Table
from sweeper.report.dossier import Dossier
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened
from sweeper.selection.opened_sentences import (
    overlap_sentences,
    times_evaluated,
    verdict_sentences,
)
from sweeper.selection.test_verdict import OpenedRule, judge_opened

COLUMNS = (
    Column(name="model", kind="text", unit=None, meaning="chosen arm, baseline, untrained model"),
    Column(name="seed", kind="integer", unit=None, meaning="the trial's seed"),
    Column(name="validation_loss", kind="number", unit=NATS, meaning="at the declared checkpoint"),
    Column(name="test_loss", kind="number", unit=NATS, meaning="the same on the test split"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPart:
    """The part on the test split.

    Attributes:
        losses: Of every frozen checkpoint; None while it is sealed.
    """

    sentences: Sequence[str]
    losses: Table | None


def opened_part(dossier: Dossier) -> OpenedPart:
    """Returns the part; of several openings the first counts."""
    results = dossier.openings.results
    if not results:
        return OpenedPart(sentences=[_sealed(dossier)], losses=None)
    first = results[0]
    verdict = judge_opened(first, OpenedRule.of(dossier.comparison))
    read = (
        f"The test split was opened for {first.chosen}: {first.records} records with "
        f"{first.target_tokens} target tokens were scored."
    )
    again = times_evaluated(dossier.openings)
    repeated = [] if again is None else [f"{again} What follows is of the first."]
    sentences = [*repeated, read, *verdict_sentences(verdict), *overlap_sentences(first)]
    return OpenedPart(sentences=sentences, losses=_losses(first))


def _sealed(dossier: Dossier) -> str:
    data = dossier.settings.data
    if data.test is None and not (data.split is not None and data.split.test):
        return "The study has no test split."
    if dossier.frozen is None:
        return "The test split is sealed: no choice has been frozen."
    return (
        f"The choice of {dossier.frozen.arm} is frozen, and the test split has not been opened: "
        "nothing on this page rests on it."
    )


def _losses(opened: Opened) -> Table:
    rows = [
        {
            "model": "untrained model" if each.role is Role.INITIAL else each.arm,
            "seed": each.seed,
            "validation_loss": each.validation_loss,
            "test_loss": each.test_loss,
        }
        for each in opened.losses
    ]
    return Table(rows=rows, columns=COLUMNS)
