"""Which trial's weights are passed on: the frozen choice, or one that was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweeper.errors import Fault, NotFound, StudyConflict, nearest
from sweeper.records import OutcomeKind
from sweeper.report.dossier import Dossier
from sweeper.selection.chain import verify
from sweeper.selection.frozen import Frozen


class Standing(StrEnum):
    """What passed-on weights are to the study's choice."""

    FROZEN = "frozen"
    OTHER_SEED = "other_seed"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """Weights that are passed on.

    Attributes:
        trial: Its row of the table of trials.
        without_weights: Declared seeds before this one that left none; of the frozen choice.
        weights: Folder in the run folder.
        sha256: Over its files, as it is on record.
        environment: What the trial ran on, by field.
    """

    standing: Standing
    trial: Mapping[str, object]
    without_weights: tuple[int, ...]
    weights: str
    sha256: str
    environment: Mapping[str, str]

    @property
    def name(self) -> str:
        """Arm and seed, as in `double/2`."""
        return str(self.trial["trial"])

    @property
    def validation_loss(self) -> float:
        """On record for these weights, in nats per target token."""
        loss = self.trial["validation_loss"]
        assert isinstance(loss, float), "a completed trial has one"
        return loss


def shipment(dossier: Dossier, trial: str | None) -> Shipment:
    """Returns the first declared seed of the frozen choice, or the trial that was named.

    Raises:
        StudyConflict: Nothing is frozen, or the trial has not been completed.
        NotFound: The study has no such trial.
    """
    if trial is not None:
        return _shipped(dossier, _named(dossier, trial))
    frozen = _frozen(dossier)
    chosen = [each for each in frozen.checkpoints if each.arm == frozen.arm and each.path]
    seeds = {each.seed for each in chosen}
    first = next((seed for seed in dossier.evidence.seeds if seed in seeds), None)
    if first is None:
        what = "no trial of the chosen arm has left weights"
        raise StudyConflict(Fault(what=what, where=frozen.arm, hint="Name a trial with --trial"))
    return _shipped(dossier, _named(dossier, f"{frozen.arm}/{first}"))


def first_shipped(dossier: Dossier) -> str | None:
    """Returns the trial that is passed on where none is named; None before a freeze."""
    if dossier.frozen is None:
        return None
    return shipment(dossier, None).name


def _frozen(dossier: Dossier) -> Frozen:
    where = str(dossier.folder.path)
    if dossier.frozen is None:
        raise StudyConflict(
            Fault(
                what="no choice has been frozen, so that there is none to pass on",
                where=where,
                hint="`sweeper select STUDY` freezes it; --trial T exports any completed trial, "
                "marked as not the frozen choice",
            )
        )
    if verify(dossier.links):
        what = "the chain is not whole, so that nothing shows what was frozen"
        hint = "`sweeper audit STUDY` says where; --trial T exports any completed trial"
        raise StudyConflict(Fault(what=what, where=where, hint=hint))
    return dossier.frozen


def _named(dossier: Dossier, trial: str) -> Mapping[str, object]:
    """Returns the row of a completed trial.

    Raises:
        NotFound: The study has no such trial.
        StudyConflict: It has not been completed.
    """
    rows = {str(row["trial"]): row for row in dossier.trials.rows}
    if trial not in rows:
        close = nearest(trial, rows)
        raise NotFound(
            Fault(
                what=f"the study has no trial {trial}",
                expected=", ".join(rows),
                hint=f"Did you mean {close}?" if close else "Write arm and seed, as in double/2",
            )
        )
    row = rows[trial]
    if row["outcome"] != OutcomeKind.COMPLETED:
        raise StudyConflict(
            Fault(
                what="only completed trials are exported",
                where=trial,
                got=str(row["outcome"] or row["status"]),
                hint="What a trial that was stopped left is in its attempt's folder, as evidence",
            )
        )
    return row


def _shipped(dossier: Dossier, row: Mapping[str, object]) -> Shipment:
    trial, frozen = str(row["trial"]), dossier.frozen
    attempt = [each for each in dossier.attempts if each["trial"] == trial][-1]
    kind = "best" if dossier.evidence.is_at_best else "adapter"
    weights, sha256 = str(attempt[f"{kind}_path"]), str(attempt[f"{kind}_sha256"])
    standing = Standing.OTHER
    missing: tuple[int, ...] = ()
    if frozen is not None:
        of_arm = [each for each in frozen.checkpoints if each.arm == frozen.arm and each.path]
        frozen_sha256 = {each.seed: each.sha256 for each in of_arm}
        standing, missing = _standing(dossier, frozen.arm, row, set(frozen_sha256))
        if standing is not Standing.OTHER:
            sha256 = frozen_sha256[int(str(row["seed"]))]
    return Shipment(
        standing=standing,
        trial=row,
        without_weights=missing,
        weights=weights,
        sha256=sha256,
        environment=_environment(dossier, trial),
    )


def _environment(dossier: Dossier, trial: str) -> Mapping[str, str]:
    """Returns what the attempt that completed the trial ran on."""
    return [stretch for stretch in dossier.stretches if stretch.cell == trial][-1].environment


def _standing(
    dossier: Dossier, chosen: str, row: Mapping[str, object], seeds: set[int]
) -> tuple[Standing, tuple[int, ...]]:
    """Returns what the trial is to the choice, and the declared seeds before it without weights."""
    seed = row["seed"]
    if row["arm"] != chosen or seed not in seeds:
        return Standing.OTHER, ()
    before = dossier.evidence.seeds[: dossier.evidence.seeds.index(int(str(seed)))]
    if seeds & set(before):
        return Standing.OTHER_SEED, ()
    return Standing.FROZEN, before
