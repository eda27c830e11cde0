"""`sweeper check`: what a study file resolves to, before any device is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.output import console, name_next, plain, print_json, terminal_table
from sweeper.cli.progress import telling
from sweeper.study.checking import CheckReport, SplitSummary, describe
from sweeper.study.exposure import ExposurePlan
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.plan import make_plan
from sweeper.study.preparing import prepare
from sweeper.training.report import ModelReport

Rows = Sequence[Mapping[str, object]]


def check(study: Study, as_json: AsJson = False) -> None:
    """Print what a study file resolves to: cells, rates, exposure, warnings."""
    study_file = load_study(study)
    folder = StudyFolder.beside(study_file.path, study_file.study.name)
    with telling() as progress:
        manifest = prepare(study_file, folder, progress=progress)
    plan = make_plan(study_file, manifest, folder.prepared)
    model = ModelReport.read(folder.model_report)
    report = describe(study_file, plan, manifest, model=model)
    if as_json:
        print_json(plain(report))
    else:
        print_report(report)
    name_next(f"sweeper run {study}")


def print_report(report: CheckReport) -> None:
    """Prints the report section by section; what is empty is left out."""
    screen = console()
    screen.print(f"{report.name}: {report.question}", style="bold", markup=False)
    screen.print(f"fingerprint {report.fingerprint}", markup=False)
    for title, rows in _tables(report):
        screen.print(f"\n{title}", style="bold", markup=False)
        screen.print(terminal_table(rows, list(rows[0])))
    for title, lines in _texts(report):
        if lines:
            screen.print(f"\n{title}", style="bold", markup=False)
        for line in lines:
            screen.print(line, markup=False)


def _tables(report: CheckReport) -> Iterator[tuple[str, Rows]]:
    yield "Settings", [_setting(each.key, each.value, each.given) for each in report.settings]
    yield (
        f"Arms: {report.factor}",
        [
            {
                "arm": arm.name,
                "peak": f"{arm.learning_rate_peak:g}",
                "final": f"{arm.learning_rate_final:g}",
                "peak x weight_decay": f"{arm.lr_x_weight_decay:g}",
            }
            for arm in report.arms
        ],
    )
    yield "Data", [_split(split) for split in report.splits]
    yield "Exposure of every trial, by seed", [_exposure(each) for each in report.exposures]


def _setting(key: str, value: object, given: bool) -> dict[str, object]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": key, "value": text, "from": "the file" if given else "default"}


def _split(split: SplitSummary) -> dict[str, object]:
    return {
        "split": split.name,
        "records": split.records,
        "target tokens": split.target_tokens,
        "input tokens": split.input_tokens,
        "longest": split.longest_tokens,
        "cut": split.cut,
        "dropped": "; ".join(f"{each.count} {each.reason}" for each in split.dropped) or None,
        "digest": split.digest[:12],
    }


def _exposure(each: ExposurePlan) -> dict[str, object]:
    planned = each.planned
    return {
        "seed": each.seed,
        "target tokens": planned.target_tokens,
        "input tokens": planned.input_tokens,
        "records": planned.records,
        "epochs": each.epochs,
        "windows": planned.windows,
        "targets per update": f"{each.fewest_target_tokens} to {each.most_target_tokens}",
        "last window": f"{each.last_window_records} records",
        "warm-up": f"{each.warmup} {each.counter} ({each.warmup_share:.1%})",
        "evaluations": each.evaluations,
    }


def _texts(report: CheckReport) -> Iterator[tuple[str, Sequence[str]]]:
    cells = ", ".join(cell.id for cell in report.cells)
    yield f"Cells, in the order they start ({len(report.cells)})", (cells,)
    yield "How the budget is met", (report.rounding_rule,)
    yield "Model", () if report.model is None else tuple(_model(report.model))
    yield "Overlap between splits", tuple(_overlaps(report))
    yield "Notices", report.notices
    yield f"What {len(report.exposures)} seeds can show", report.resolution.sentences
    yield "Warnings", report.warnings
    yield (
        "Not yet in effect",
        tuple(
            f"{each.key}: {each.written} ({each.capability})" for each in report.not_yet_in_effect
        ),
    )


def _model(model: ModelReport) -> Iterator[str]:
    share = model.trainable_parameters / model.parameters
    yield (
        f"{model.parameters:,} parameters, {model.trainable_parameters:,} trained ({share:.2%}); "
        f"embedding of {model.embedding_rows} rows; "
        f"{model.max_positions or 'an undeclared number of'} positions"
    )
    if model.adapted_modules:
        yield f"Adapter on {len(model.adapted_modules)} modules: {', '.join(model.adapted_modules)}"


def _overlaps(report: CheckReport) -> Iterator[str]:
    for each in report.overlaps:
        what = "equal records" if each.kind == "exact" else "equal prompts, other answers"
        numbers = ", ".join(str(number) for number in each.record_numbers)
        yield f"{each.split} and {each.held_out}: {each.count} {what} (records {numbers})"
