"""Everything that `sweeper check` says, as plain data; how it is printed is not decided here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.data.manifest import Dropped, Manifest, Overlap, SplitManifest
from sweeper.selection.differences import FEWEST_PAIRS_FOR_A_CLAIM
from sweeper.study.arms import ArmPlan
from sweeper.study.document import Plain
from sweeper.study.exposure import ExposurePlan
from sweeper.study.findings import RATE
from sweeper.study.loading import StudyFile
from sweeper.study.pending import NotYet
from sweeper.study.plan import Cell, Plan
from sweeper.study.resolution import Resolution, resolution_of
from sweeper.study.schema import Study
from sweeper.training.report import ModelReport

DECIDED_ON_THE_SLOT = "auto (decided on the slot)"

ROUNDING_RULE = (
    "The stream is cut where the budget is reached, surplus targets of the last record masked; a"
    " tail of less than half a window joins the window before it, a longer one is a short window."
)

PACKING_RULE = (
    " Records are laid end to end in the order of the stream; a row is closed when the next record"
    " does not fit. Windows are counted in rows."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of the study with its resolved value.

    Attributes:
        value: As plain JSON values; `auto` where only the slot can tell says so.
        given: Whether the file gives it; otherwise it is the default.
    """

    key: str
    value: Plain
    given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSummary:
    """One split as it was prepared; what is unknown of a sealed test split is None."""

    name: str
    records: int | None
    target_tokens: int | None
    input_tokens: int | None
    longest_tokens: int | None
    cut: int | None
    dropped: tuple[Dropped, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a study will do, told before any device is touched.

    Attributes:
        settings: Every key, in the order of the schema.
        arms: The baseline first.
        cells: Seed by seed, the baseline first, its repeat right after it.
        baseline: Which earlier choice the baseline's rate is from, as sentences; empty where the
            file gives the rate.
        noise_floor: What the repeat is for, as a sentence; None without one.
        extensions: Which arms may be added and what they may cost, as sentences; None for none.
        exposures: In the order of the seeds; of each arm where those differ.
        splits: As they will be read; `test` is known by its digest alone.
        overlaps: Records and prompts that splits share.
        notices: What preparing the data decided on the way.
        model: The model's shape; None when it was not looked at.
        not_yet_in_effect: Keys that the file gives and that do nothing so far.
        resolution: What the number of seeds can and cannot show.
        rounding_rule: How the budget is met to the token.
    """

    name: str
    fingerprint: str
    question: str
    factor: str
    settings: tuple[Setting, ...]
    budget_target_tokens: int
    epoch_target_tokens: int
    arms: tuple[ArmPlan, ...]
    cells: tuple[Cell, ...]
    baseline: tuple[str, ...] = ()
    noise_floor: str | None = None
    extensions: str | None = None
    exposures: tuple[ExposurePlan, ...]
    splits: tuple[SplitSummary, ...]
    overlaps: tuple[Overlap, ...]
    notices: tuple[str, ...]
    model: ModelReport | None
    warnings: tuple[str, ...]
    not_yet_in_effect: tuple[NotYet, ...]
    resolution: Resolution
    rounding_rule: str = ROUNDING_RULE


def describe(
    study_file: StudyFile, plan: Plan, manifest: Manifest, *, model: ModelReport | None = None
) -> CheckReport:
    """Returns the report on a planned study."""
    study = study_file.study
    return CheckReport(
        name=plan.name,
        fingerprint=plan.fingerprint,
        question=study.question.text,
        factor=study.compare.key,
        settings=tuple(_settings(study_file)),
        budget_target_tokens=plan.budget_target_tokens,
        epoch_target_tokens=manifest.splits["train"].target_tokens,
        arms=plan.arms,
        cells=plan.cells,
        baseline=_baseline(study_file),
        noise_floor=_noise_floor(plan),
        extensions=_extensions(study, plan),
        exposures=plan.all_exposures,
        splits=tuple(_splits(manifest)),
        overlaps=manifest.overlaps,
        notices=manifest.notices,
        model=model,
        warnings=plan.warnings,
        not_yet_in_effect=study_file.not_yet,
        resolution=resolution_of(seeds=len(study.seeds), comparisons=len(plan.arms) - 1),
        rounding_rule=ROUNDING_RULE + (PACKING_RULE if study.data.packing else ""),
    )


def _baseline(study_file: StudyFile) -> tuple[str, ...]:
    taken = study_file.taken
    if taken is None:
        return ()
    return (
        f"{taken.origin[0].upper()}{taken.origin[1:]}.",
        f"Frozen at {taken.at}, entry {taken.entry[:12]} of its chain. {taken.sentence}",
        f"What that study answered: {taken.answer}",
        *(() if taken.chosen_under is not None else (_FROM_THE_RECORD,)),
    )


_FROM_THE_RECORD = (
    "So it stands on this study's own record, which goes on from that: the earlier study's run "
    "folder does not say it any more."
)


def _noise_floor(plan: Plan) -> str | None:
    repeat = next((cell for cell in plan.cells if cell.repeats is not None), None)
    if repeat is None:
        return None
    return (
        f"{repeat.id} runs {repeat.repeats} once more, in another slot where there is one. It "
        "belongs to no arm: what the two differ by is the noise floor, and no smaller difference "
        "is claimed."
    )


def _extensions(study: Study, plan: Plan) -> str | None:
    left = study.selection.extensions - max(arm.round for arm in plan.arms)
    if left <= 0:
        return None
    seeds = len(study.seeds)
    if seeds < FEWEST_PAIRS_FOR_A_CLAIM:
        return (
            f"No arm will be added: with fewer than {FEWEST_PAIRS_FOR_A_CLAIM} seeds nothing says "
            "which rate is best."
        )
    arms = "one further arm" if left == 1 else f"{left} further arms, one after another,"
    trials, each = left * seeds, plan.budget_target_tokens
    return (
        "When every cell has ended and the best rate is at the edge of those compared, `run` adds "
        f"a rate twice or half as high, for the same seeds: {arms} at the most, which is {trials} "
        f"trials of {each:,} target tokens, {trials * each:,} in all. Each arm is one more "
        "comparison, which the p values of all are corrected for."
    )


def _settings(study_file: StudyFile) -> Iterator[Setting]:
    values: dict[str, Plain] = study_file.study.model_dump(mode="json")
    adapter = study_file.study.adapter
    values["lora"] = None if adapter is None else adapter.model_dump(mode="json")
    for key, value in _leaves(values, ""):
        shown = DECIDED_ON_THE_SLOT if value == "auto" and key in _DECIDED_LATER else value
        is_taken = key == RATE and study_file.taken is not None
        yield Setting(key=key, value=shown, given=is_taken or key in study_file.given)


_DECIDED_LATER = frozenset({"model.dtype", "model.attention", "training.precision", "run.slots"})


def _leaves(value: Plain, key: str) -> Iterator[tuple[str, Plain]]:
    """Yields keys with values; an empty mapping and a list are values."""
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            yield from _leaves(entry, f"{key}.{name}" if key else name)
    else:
        yield key, value


def _splits(manifest: Manifest) -> Iterator[SplitSummary]:
    for name, split in manifest.splits.items():
        yield _prepared(name, split)
    if manifest.test is not None:
        yield SplitSummary(
            name="test",
            records=manifest.test.records,
            target_tokens=None,
            input_tokens=None,
            longest_tokens=None,
            cut=None,
            dropped=(),
            digest=manifest.test.records_digest,
        )


def _prepared(name: str, split: SplitManifest) -> SplitSummary:
    return SplitSummary(
        name=name,
        records=split.records,
        target_tokens=split.target_tokens,
        input_tokens=split.input_tokens,
        longest_tokens=split.longest_tokens,
        cut=split.cut,
        dropped=split.dropped,
        digest=split.records_digest,
    )
