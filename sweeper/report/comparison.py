"""Turns what the store recorded into the evidence that `selection` judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType

from sweeper.records import Reason
from sweeper.report.environments import environment_of
from sweeper.report.example_losses import example_losses
from sweeper.report.recorded import agreed_settings, reading, run_folder
from sweeper.report.trajectories import trajectory
from sweeper.selection.comparison import Comparison
from sweeper.selection.comparison import compare as judge
from sweeper.selection.evidence import (
    BASELINE,
    REPEAT,
    Arm,
    CellEvidence,
    EvaluationSet,
    QuestionKind,
    StudyEvidence,
    StudyKind,
    TrialPrecision,
    kind_of,
)
from sweeper.selection.example_losses import ExampleLosses
from sweeper.selection.frozen import Frozen
from sweeper.selection.wording import listing
from sweeper.store import decoding
from sweeper.store.planning import RecordedStudy
from sweeper.store.reading import CellRecord, Row, Start
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.following import taken_by
from sweeper.study.schema import Study
from sweeper.study.taken_choice import TakenChoice


def compare(study: str | Path) -> Comparison:
    """Returns what the recorded study shows so far.

    Args:
        study: A study file or its run folder.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StudyConflict: See `agreed_settings`.
    """
    folder = run_folder(study)
    with reading(study) as store:
        return judge(evidence(store, agreed_settings(store, folder), folder=folder.path))


def frozen_choice(study: str | Path) -> Frozen | None:
    """Returns the study's frozen choice; None before there is one.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    with reading(study) as store:
        return store.frozen()


def taken_choice(study: str | Path) -> TakenChoice | None:
    """Returns the earlier choice that the study's baseline is from; None where there is none.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StudyConflict: See `agreed_settings`.
    """
    folder = run_folder(study)
    with reading(study) as store:
        return taken_by(store.chain.links(), agreed_settings(store, folder), folder)


def evidence(store: StudyStore, study: Study, *, folder: Path | None = None) -> StudyEvidence:
    """Returns the recorded study as values: its agreed rules and one entry per cell.

    Args:
        folder: The run folder, for the losses of single records; None leaves them out.

    Raises:
        StoreError: The database holds what cannot be read, or what does not belong together.
    """
    recorded, records, arms = store.study(), store.cells(), store.rounds.arms()
    _refuse_others(recorded, arms, records)
    target, at_best = study.selection.target_loss, study.selection.checkpoint == "best_validation"
    starts = _starts(store)
    cells = _cells(store, starts, planned=recorded.budget_target_tokens)
    return StudyEvidence(
        question=QuestionKind(study.question.kind),
        question_text=study.question.text,
        kind=kind_of(recorded.factor_key),
        factor=recorded.factor_key,
        derived_keys=_DERIVED[kind_of(recorded.factor_key)],
        arms=arms,
        seeds=recorded.seeds,
        cells=tuple(cell for cell in cells if cell.arm != REPEAT),
        repeat=next((cell for cell in cells if cell.arm == REPEAT), None),
        repeat_is_open=any(record.arm == REPEAT and _is_open(record) for record in records),
        is_at_best=at_best,
        smallest_difference=study.selection.smallest_difference,
        retention_margin=study.selection.retention_margin,
        precision=_precision((*starts.values(), *store.stretches())),
        precision_tolerance=study.selection.precision_tolerance,
        has_retention=study.data.retention is not None,
        closed=store.is_closed() and not any(_is_open(record) for record in records),
        extensions=study.selection.extensions,
        target_loss=None if target == "worst_baseline" else target,
        weight_decay=study.training.optimizer.weight_decay,
        rate_decays=study.training.schedule.kind != "constant",
        starts_alike=study.tune == "lora",
        examples=None if folder is None else _examples(store, folder, at_best=at_best),
    )


def _refuse_others(
    recorded: RecordedStudy, arms: Sequence[Arm], records: Sequence[CellRecord]
) -> None:
    """Accepts arms, seeds and cells on record as those of one study.

    Raises:
        StoreError: They are not: something was changed or damaged.
    """
    with decoding.reading("sweeper_study, column factor_key"):
        kind_of(recorded.factor_key)
    names, seeds = [arm.name for arm in arms], recorded.seeds
    if names.count(BASELINE) != 1 or len(set(names)) < len(names):
        expected = f"arms of different names, one of them {BASELINE}"
        raise decoding.unreadable(
            "sweeper_study, column arms", got=", ".join(names), expected=expected
        )
    if len(set(seeds)) < len(seeds):
        raise decoding.unreadable(
            "sweeper_study, column seeds", got=list(seeds), expected="different seeds"
        )
    others = [
        record.cell
        for record in records
        if record.seed not in seeds or record.arm not in (*names, REPEAT)
    ]
    if others:
        raise decoding.unreadable(
            "sweeper_study, columns arms and seeds, and sweeper_cell",
            got=f"cells {', '.join(others)}",
            expected=f"cells of {listing(names)} with the seeds {listing(list(map(str, seeds)))}",
        )


_DERIVED: Mapping[StudyKind, frozenset[str]] = MappingProxyType(
    {
        StudyKind.RATE: frozenset(),
        StudyKind.BATCH_SIZE: frozenset({"planned.windows", "planned.last_window_target_tokens"}),
        StudyKind.PRECISION: frozenset(),
    }
)
"""The settings of a trial that follow from the factor: the same stream has other windows."""


def _examples(store: StudyStore, folder: Path, *, at_best: bool) -> ExampleLosses | None:
    completed = {str(row["trial"]) for row in store.trials() if row["outcome"] == "completed"}
    return example_losses(folder, store.evaluations(), completed=completed, at_best=at_best)


def _is_open(record: CellRecord) -> bool:
    return record.status in {CellStatus.WAITING, CellStatus.RUNNING}


def _starts(store: StudyStore) -> Mapping[str, Start]:
    """Returns what each cell started from, its environment over all attempts in its history."""
    stretches: dict[str, list[Start]] = defaultdict(list)
    for stretch in store.stretches():
        stretches[stretch.cell].append(stretch)
    return {
        start.cell: replace(start, environment=environment_of(stretches[start.cell] or [start]))
        for start in store.starts()
    }


def _precision(starts: Iterable[Start]) -> TrialPrecision:
    """The loosest precision of any trial: gates on losses are as strict as it allows."""
    found = {start.environment.get("precision") for start in starts}
    loosest = (TrialPrecision.BFLOAT16, TrialPrecision.FLOAT16)
    return next((each for each in loosest if each.value in found), TrialPrecision.FLOAT32)


def _cells(
    store: StudyStore, starts: Mapping[str, Start], *, planned: int
) -> tuple[CellEvidence, ...]:
    updates = _by_trial(store.updates())
    evaluations = _by_trial(store.evaluations())
    digests = {str(row["trial"]): row["adapter_sha256"] for row in store.attempts()}
    return tuple(
        _cell(
            row,
            updates=updates[str(row["trial"])],
            evaluations=evaluations[str(row["trial"])],
            start=starts.get(str(row["trial"])),
            planned=planned,
            weights_digest=_text(digests.get(str(row["trial"]))),
        )
        for row in store.trials()
    )


def _by_trial(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[str(row["trial"])].append(row)
    return grouped


def _cell(  # one cell's rows, table by table
    row: Row,
    *,
    updates: Sequence[Row],
    evaluations: Sequence[Row],
    start: Start | None,
    planned: int,
    weights_digest: str | None,
) -> CellEvidence:
    reason = None if row["reason"] is None else Reason(str(row["reason"]))
    stopped = row["outcome"] == "stopped"
    return CellEvidence(
        arm=str(row["arm"]),
        seed=_integer(row["seed"]) or 0,
        reason=reason,
        detail=str(row["detail"] or ""),
        initial_loss=_number(row["initial_loss"]),
        first_window_loss=_number(row["first_window_loss"]),
        validation_loss=_number(row["validation_loss"]),
        retention_initial_loss=_number(row["retention_initial_loss"]),
        retention_loss=_number(row["retention_loss"]),
        last_finite_loss=_number(row["last_finite_loss"]),
        initial_digest=None if start is None else start.initial_digest,
        records_read=tuple(accumulate(_integer(update["records"]) or 0 for update in updates)),
        record_digests=tuple(str(update["record_digest"]) for update in updates),
        evaluation_sets=_evaluation_sets(evaluations),
        environment={} if start is None else start.environment,
        target_tokens_read=_integer(row["target_tokens_read"]),
        target_tokens_applied=_integer(row["target_tokens_applied"]),
        target_tokens_planned=planned,
        windows=_integer(row["windows"]) or 0,
        skipped=_integer(row["skipped"]) or 0,
        stopped_at_target_tokens=_integer(row["target_tokens_read"]) if stopped else None,
        window_losses=tuple(_number(update["loss"]) for update in updates),
        weights_digest=weights_digest,
        configuration={} if start is None else start.configuration,
        evaluations=trajectory(evaluations, updates),
    )


def _evaluation_sets(evaluations: Sequence[Row]) -> Mapping[str, EvaluationSet]:
    return {
        str(row["split"]): EvaluationSet(
            set_digest=str(row["set_digest"]),
            target_tokens=_integer(row["target_tokens"]) or 0,
            dtype=str(row["dtype"]),
            micro_batch=_integer(row["micro_batch"]) or 0,
        )
        for row in evaluations
    }


def _number(value: object) -> float | None:
    assert value is None or isinstance(value, int | float)
    return None if value is None else float(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _integer(value: object) -> int | None:
    assert value is None or isinstance(value, int)
    return value
