"""`sweeper check`: what a study file resolves to, before any device is touched."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns, print_facts
from sweeper.cli.output import name_next, print_json, write
from sweeper.cli.plain import plain
from sweeper.cli.progress import telling
from sweeper.data.manifest import Overlap
from sweeper.report.recorded import study_to_run
from sweeper.store.store import StudyStore
from sweeper.study.arms import ArmPlan
from sweeper.study.checking import CheckReport, Setting, SplitSummary, describe
from sweeper.study.exposure import ExposurePlan
from sweeper.study.folder import StudyFolder
from sweeper.study.following import with_baseline
from sweeper.study.plan import make_plan
from sweeper.study.preparing import prepare
from sweeper.study.recorded import recorded_url
from sweeper.sweep.conflicts import refuse_conflicts
from sweeper.sweep.extending import plan_on_record
from sweeper.training.report import ModelReport

Rows = Sequence[Mapping[str, object]]

SEEDS_ABREAST = 3
"""Seeds side by side in the table of exposures: what a terminal of 80 columns holds."""


def check(study: Study, as_json: AsJson = False) -> None:
    """Print what a study will do, before it costs anything.

    Reads and tokenises the data, once, and looks at the model without loading a weight. Prints
    every resolved setting, splits, exposure by seed, arms, cells, warnings, and what so many
    seeds can and cannot show. No device is touched.
    """
    study_file = study_to_run(study)
    folder = StudyFolder.beside(study_file.path, study_file.study.name)
    study_file = with_baseline(study_file, folder)
    with telling() as progress:
        manifest = prepare(study_file, folder, progress=progress)
    plan = make_plan(study_file, manifest, folder.prepared)
    if (url := recorded_url(folder, os.environ)) is not None:
        with StudyStore.read(url) as store:
            refuse_conflicts(store, plan, study_file, folder)
            plan = plan_on_record(plan, study_file.study, store)
    model = ModelReport.read(folder.model_report)
    report = describe(study_file, plan, manifest, model=model)
    if as_json:
        print_json(plain(report))
    else:
        print_report(report)
    name_next("run", study)


def print_report(report: CheckReport) -> None:
    """Prints the report for people, what asks for attention last: it stays on the screen."""
    write(f"{report.name}: {report.question}", style="bold")
    _print_settings("Settings of the file", [each for each in report.settings if each.given])
    _print_settings("Defaults", [each for each in report.settings if not each.given])
    for title, rows in _tables(report):
        write(f"\n{title}", style="bold")
        print_columns(columns_from(rows))
    for title, lines in _texts(report):
        if lines:
            write(f"\n{title}", style="bold")
        for line in lines:
            write(line)


def _print_settings(title: str, settings: Sequence[Setting]) -> None:
    """Prints the settings that are not null; those come later, on one line."""
    facts = {
        each.key: each.value if isinstance(each.value, str) else json.dumps(each.value)
        for each in settings
        if each.value is not None
    }
    write(f"\n{title}", style="bold")
    print_facts(facts)


def _tables(report: CheckReport) -> Iterator[tuple[str, Rows]]:
    yield "Data", [_split(split) for split in report.splits]
    exposures = report.exposures
    for first in range(0, len(exposures), SEEDS_ABREAST):
        yield "Exposure of every trial", _exposures(exposures[first : first + SEEDS_ABREAST])
    grows = any(arm.round for arm in report.arms)
    yield f"Arms: {report.factor}", [_arm(arm, grows=grows) for arm in report.arms]


def _split(split: SplitSummary) -> dict[str, object]:
    return {
        "split": split.name,
        "records": split.records,
        "target tokens": split.target_tokens,
        "input tokens": split.input_tokens,
        "longest": split.longest_tokens,
        "cut": split.cut,
        "digest": split.digest[:12],
    }


def _exposures(exposures: Sequence[ExposurePlan]) -> Rows:
    """Returns the seeds side by side, one row per quantity."""
    by_seed = {_whose(each): _exposure(each) for each in exposures}
    quantities = _exposure(exposures[0])
    return [
        {"": name} | {seed: facts[name] for seed, facts in by_seed.items()} for name in quantities
    ]


def _whose(each: ExposurePlan) -> str:
    return f"seed {each.seed}" if each.arm is None else f"{each.arm}/{each.seed}"


def _exposure(each: ExposurePlan) -> dict[str, object]:
    planned = each.planned
    return {
        "target tokens": planned.target_tokens,
        "input tokens": planned.input_tokens,
        "records": planned.records,
        **_rows(each),
        "epochs": each.epochs,
        "windows": planned.windows,
        "targets per update": f"{each.fewest_target_tokens} to {each.most_target_tokens}",
        "mean of them": f"{each.mean_target_tokens:.1f}",
        "last window": _last_window(each),
        "warm-up": _warmup(each),
        "warm-up's share": f"{each.warmup_share:.1%}",
        "evaluations": each.evaluations,
    }


def _rows(each: ExposurePlan) -> dict[str, object]:
    """Returns what packing does; nothing without it."""
    if each.row_fill is None:
        return {}
    return {"packed rows": each.planned.rows, "rows are full to": f"{each.row_fill:.1%}"}


def _last_window(each: ExposurePlan) -> str:
    if each.last_window_rows is None:
        return f"{each.last_window_records} records"
    return f"{each.last_window_rows} rows"


def _warmup(each: ExposurePlan) -> str:
    unit = each.counter.replace("_", " ")
    return f"1 {unit.removesuffix('s')}" if each.warmup == 1 else f"{each.warmup} {unit}"


def _arm(arm: ArmPlan, *, grows: bool) -> dict[str, object]:
    return {
        "arm": arm.name,
        **({"round": arm.round} if grows else {}),
        **_factor(arm),
        "peak": f"{arm.learning_rate_peak:g}",
        "final": f"{arm.learning_rate_final:g}",
        "peak x weight_decay": f"{arm.lr_x_weight_decay:g}",
    }


def _factor(arm: ArmPlan) -> dict[str, object]:
    """Returns what is compared, where that is not the rate."""
    compared = {"records per update": arm.records_per_update, "precision": arm.precision}
    return {name: value for name, value in compared.items() if value is not None}


def _texts(report: CheckReport) -> Iterator[tuple[str, Sequence[str]]]:
    off = ", ".join(each.key for each in report.settings if each.value is None)
    cells = ", ".join(cell.id for cell in report.cells)
    yield f"Cells, in the order they start ({len(report.cells)})", (cells,)
    yield "Baseline", report.baseline
    yield "Noise floor", () if report.noise_floor is None else (report.noise_floor,)
    yield "Further arms", () if report.extensions is None else (report.extensions,)
    yield "How the budget is met", (report.rounding_rule,)
    yield "Model", () if report.model is None else tuple(_model(report.model))
    yield "Off (null)", (off,)
    yield (
        "Not yet in effect",
        tuple(
            f"{each.key}: {each.written} ({each.capability})" for each in report.not_yet_in_effect
        ),
    )
    yield "Left out", tuple(_left_out(report.splits))
    yield "Overlap between splits", tuple(_overlaps(report))
    yield "Notices", report.notices
    yield f"What {_seeds(report)} can show", report.resolution.sentences
    yield "Warnings", report.warnings
    yield "Fingerprint", (report.fingerprint,)


def _seeds(report: CheckReport) -> str:
    count = len({each.seed for each in report.exposures})
    return "1 seed" if count == 1 else f"{count} seeds"


def _model(model: ModelReport) -> Iterator[str]:
    share = model.trainable_parameters / model.parameters
    yield (
        f"{model.parameters:,} parameters, {model.trainable_parameters:,} trained ({share:.2%}); "
        f"embedding of {model.embedding_rows} rows; "
        f"{model.max_positions or 'an undeclared number of'} positions"
    )
    kinds = Counter(module.rpartition(".")[2] for module in model.adapted_modules)
    if kinds:
        named = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        yield f"Adapter on {len(model.adapted_modules)} modules: {named}"


def _left_out(splits: Sequence[SplitSummary]) -> Iterator[str]:
    for split in splits:
        for each in split.dropped:
            reason = each.reason.replace("_", " ")
            yield f"{split.name}: {_numbered(each.count, reason, each.record_numbers)}"


def _overlaps(report: CheckReport) -> Iterator[str]:
    """Yields what splits share, which were looked at where that is nothing, and which were not."""
    found = [_overlap(each) for each in report.overlaps if each.count]
    compared = ", ".join(each.name for each in report.splits if each.records is not None)
    absent = [each.name for each in report.splits if each.records is None]
    later = f"{', '.join(absent)}: not yet there"  # known by its digest alone
    if found:
        yield from (*found, later) if absent else found
    else:
        yield f"{compared}: none; {later}" if absent else f"{compared}: none"


def _overlap(each: Overlap) -> str:
    what = "equal records" if each.kind == "exact" else "equal prompts, other answers"
    numbered = _numbered(each.count, what, each.record_numbers)
    return f"{each.split} and {each.held_out}: {numbered}"


def _numbered(count: int, what: str, record_numbers: Sequence[int]) -> str:
    """Returns the count with the numbers of the records, of which only the first are known."""
    numbers = ", ".join(map(str, record_numbers))
    more = ", ..." if count > len(record_numbers) else ""
    return f"{count} {what} (records {numbers}{more})"
