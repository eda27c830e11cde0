"""A study and its prepared data become a plan: cells, rates, exposure, fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from sweeper.data.manifest import Manifest
from sweeper.data.prepared import PreparedSplit
from sweeper.options import size_bytes
from sweeper.selection.evidence import BASELINE, REPEAT, Arm
from sweeper.study.arms import ArmPlan, plan_arm, plan_arms
from sweeper.study.caveats import warnings_of
from sweeper.study.data_facts import data_facts
from sweeper.study.document import Plain
from sweeper.study.exposure import ExposurePlan, plan_exposure, records_per_update
from sweeper.study.fingerprint import Protocol, fingerprint, protocol_of
from sweeper.study.following import refuse_other_data
from sweeper.study.loading import StudyFile
from sweeper.study.places import resolved_model
from sweeper.study.same_environment import fields_of_precision
from sweeper.study.schema import Study
from sweeper.study.spec import TrialSpec
from sweeper.study.taken_choice import BASELINE_FACTS
from sweeper.training.options import ModelOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arm with one seed; or the baseline once more, which belongs to no arm.

    Attributes:
        id: `arm/seed`, for instance `double/2`; `baseline/0~repeat` for a repeat.
        arm: The arm's name; `REPEAT` for a repeat, so that nothing counts it among an arm's cells.
        value: The arm's value of the compared key.
        repeats: Id of the cell that this one runs once more; None for a cell of an arm.
        round: In which round its arm was added; 0 for an arm of the study file.
    """

    id: str
    arm: str
    seed: int
    value: float | str
    repeats: str | None = None
    round: int = 0

    @property
    def runs_arm(self) -> str:
        """The arm whose settings it runs with."""
        return self.arm if self.repeats is None else BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that is known before the first trial.

    Attributes:
        protocol: What the fingerprint is made of.
        cells: Seed by seed, the baseline first; its repeat, where there is one, right after it.
            After them those of arms that were added, round by round.
        arms: The baseline first, the others as the study lists them, then those that were added.
        exposures: By seed, of every arm; of the baseline where arms have windows of their own.
        own_exposures: Those of the other arms then, by the cell's id.
        model: The base model with its absolute path, or its hub id and resolved commit.
        data: What was prepared: digests, counts and overlaps, as plain values; and which earlier
            choice the baseline's rate was taken from, if it was.
    """

    name: str
    fingerprint: str
    protocol: Protocol
    cells: tuple[Cell, ...]
    arms: tuple[ArmPlan, ...]
    exposures: Mapping[int, ExposurePlan]
    own_exposures: Mapping[str, ExposurePlan] = field(default_factory=dict)
    warnings: tuple[str, ...]
    budget_target_tokens: int
    model: ModelOptions
    data: Mapping[str, Plain] = field(default_factory=dict)

    def exposure(self, cell: Cell) -> ExposurePlan:
        """Returns what the cell reads."""
        return self.own_exposures.get(cell.id, self.exposures[cell.seed])

    @property
    def all_exposures(self) -> tuple[ExposurePlan, ...]:
        """Seed by seed, and in a seed arm by arm where they differ."""
        own = self.own_exposures.values()
        return tuple(
            each
            for seed, exposure in self.exposures.items()
            for each in (exposure, *(each for each in own if each.seed == seed))
        )


def make_plan(study_file: StudyFile, manifest: Manifest, prepared: Path) -> Plan:
    """Returns the plan of a study whose data lie in `prepared`.

    Raises:
        PlanError: The budget needs more epochs than the study allows.
        StudyFileError: The rate was taken from a study with other data.
    """
    study, folder, taken = study_file.study, study_file.path.parent, study_file.taken
    budget = _budget_target_tokens(study, manifest)
    origin = None if taken is None else taken.in_protocol()
    protocol = protocol_of(study, manifest, folder=folder, baseline=origin)
    refuse_other_data(study_file, protocol, budget)
    train = PreparedSplit.open(prepared, "train")
    arms = plan_arms(study)
    baseline, *others = (arm if arm.records_per_update is not None else None for arm in arms)
    exposures = {
        seed: plan_exposure(study, train, seed=seed, budget_target_tokens=budget, arm=baseline)
        for seed in study.seeds
    }
    own_exposures = {
        f"{arm.name}/{seed}": plan_exposure(
            study, train, seed=seed, budget_target_tokens=budget, arm=arm
        )
        for seed in study.seeds
        for arm in others
        if arm is not None
    }
    test = None if manifest.test is None else manifest.test.records_digest
    cautions = () if taken is None else taken.cautions(test)
    facts = {} if taken is None else {BASELINE_FACTS: taken.to_facts()}
    return Plan(
        name=study.name,
        fingerprint=fingerprint(protocol),
        protocol=protocol,
        cells=plan_cells(study, arms),
        arms=arms,
        exposures=MappingProxyType(exposures),
        own_exposures=MappingProxyType(own_exposures),
        warnings=(
            *cautions,
            *warnings_of(study, arms, [*exposures.values(), *own_exposures.values()]),
        ),
        budget_target_tokens=budget,
        model=resolved_model(study, folder, commit=manifest.model_commit),
        data={**data_facts(manifest), **facts},
    )


def make_spec(  # noqa: PLR0913  # one attempt: what, of which plan, where, and with what
    study_file: StudyFile,
    plan: Plan,
    cell: Cell,
    *,
    attempt: int,
    prepared: Path,
    threads: int,
    fencing_number: int = 0,
    resume_from: Path | None = None,
    resume_elsewhere: bool = False,
    seed_environment: Mapping[str, str] | None = None,
) -> TrialSpec:
    """Returns what one attempt at a cell is told.

    Args:
        resume_from: Folder of the cell's last attempt before this one.
        resume_elsewhere: Whether it may go on where the checkpoint does not quite fit.
        seed_environment: What the seed's first attempt found, by field; None: it may find
            anything.
    """
    study, arm = study_file.study, next(arm for arm in plan.arms if arm.name == cell.runs_arm)
    micro_batch = study.run.micro_batch
    assert micro_batch != "auto", "pending.py refuses it"
    device_memory = study.run.limits.device_memory
    training = study.training.model_copy(
        update={
            "learning_rate": arm.learning_rate_peak,
            "records_per_update": records_per_update(study, arm),
            "precision": arm.precision or study.training.precision,
        }
    )
    return TrialSpec(
        study=plan.name,
        fingerprint=plan.fingerprint,
        cell=cell.id,
        arm=cell.runs_arm,
        seed=cell.seed,
        attempt=attempt,
        prepared=str(prepared.resolve()),
        model=plan.model,
        tune=study.tune,
        lora=study.adapter,
        training=training,
        packing=study.data.packing,
        budget_target_tokens=plan.budget_target_tokens,
        planned=plan.exposure(cell).planned,
        evaluation=study.evaluation,
        stop=study.stop,
        micro_batch=micro_batch,
        keep_best=study.selection.checkpoint == "best_validation",
        ranks=study.run.devices_per_trial,
        deterministic=study.run.deterministic,
        threads=threads,
        device_memory_bytes=None if device_memory is None else size_bytes(device_memory),
        fencing_number=fencing_number,
        checkpoint=study.run.checkpoint,
        resume_from=None if resume_from is None else str(resume_from.resolve()),
        resume_elsewhere=resume_elsewhere,
        seed_environment=_expected_environment(seed_environment, arm),
    )


def _expected_environment(
    seed_environment: Mapping[str, str] | None, arm: ArmPlan
) -> dict[str, str] | None:
    """Returns what the arm has to find: the seed's environment, but for what makes the arm."""
    if seed_environment is None:
        return None
    own = {} if arm.precision is None else fields_of_precision(arm.precision)
    return {**seed_environment, **own}


def _budget_target_tokens(study: Study, manifest: Manifest) -> int:
    epochs, epoch_tokens = study.budget.epochs, manifest.splits["train"].target_tokens
    if epochs is None:
        assert study.budget.target_tokens is not None, "rules.py asks for one unit"
        return study.budget.target_tokens
    return epochs * epoch_tokens


def plan_cells(study: Study, arms: tuple[ArmPlan, ...]) -> tuple[Cell, ...]:
    """Returns the study's cells in the order in which they start.

    The repeat that measures the noise floor follows the cell that it repeats, so that another slot
    runs it beside that one.
    """
    cells = [
        Cell(id=f"{arm.name}/{seed}", arm=arm.name, seed=seed, value=arm.value)
        for seed in study.seeds
        for arm in arms
    ]
    if study.selection.noise_floor:
        cells.insert(1, _repeat_of(cells[0]))
    return tuple(cells)


def with_added(plan: Plan, study: Study, arms: Iterable[Arm]) -> Plan:
    """Returns the plan with those arms as well; those that it has already change nothing.

    An added arm has the seeds, the budget and the exposure of all others. What is fingerprinted
    stays as it is.
    """
    known = {arm.name for arm in plan.arms}
    added = [
        plan_arm(study, arm.name, arm.number, added_in=arm.round)
        for arm in arms
        if arm.name not in known and arm.number is not None
    ]
    cells = [
        Cell(id=f"{arm.name}/{seed}", arm=arm.name, seed=seed, value=arm.value, round=arm.round)
        for arm in added
        for seed in study.seeds
    ]
    return replace(plan, arms=(*plan.arms, *added), cells=(*plan.cells, *cells))


def _repeat_of(cell: Cell) -> Cell:
    assert cell.arm == BASELINE, "every seed begins with the baseline"
    return replace(cell, id=f"{cell.id}~repeat", arm=REPEAT, repeats=cell.id)
