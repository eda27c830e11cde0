"""`sweeper open-test`: evaluate the frozen choice on the sealed test split, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.output import name_next, options, print_json, tell, write
from sweeper.cli.progress import telling
from sweeper.errors import Fault, UserError
from sweeper.opening.opening import open_test as carry_out
from sweeper.opening.opening import planned_opening
from sweeper.opening.planning import OpeningOrder, OpeningPlan, recorded_openings
from sweeper.report.columns import NATS
from sweeper.report.comparison import compare, taken_choice
from sweeper.report.recorded import run_folder, study_to_run
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, Openings
from sweeper.selection.opened_sentences import (
    aborted_openings,
    overlap_sentences,
    times_evaluated,
    verdict_sentences,
)
from sweeper.selection.test_verdict import OpenedRule, OpenedVerdict, judge_opened
from sweeper.study.folder import StudyFolder

_UNITS = {"validation": NATS, "test": NATS}


def open_test(  # noqa: PLR0913, PLR0917  # each is an option of the command
    study: Study,
    test: Annotated[
        Path | None,
        typer.Option(
            "--test",
            metavar="FILE",
            help="Where the test records are now, if not where the study file says.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Open it: the first opening is the one that counts.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be evaluated; open nothing.")
    ] = False,
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Evaluate once more; the study is marked.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, with --repeat.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Open the sealed test split for the frozen choice, once.

    The chosen arm, the baseline and the untrained model are evaluated on it in one shot, all seeds.
    The intent goes on record before a test record is read; the records are held against the digest
    that was sealed, the weights against those that were frozen. A second opening is refused.
    """
    order = OpeningOrder(test=test, reason=_reason(reason, is_repeat=repeat))
    study_file, folder = study_to_run(study), run_folder(study)
    if order.reason is None:
        _show_first(folder, study, as_json=as_json)
    if dry_run or not yes:
        plan = planned_opening(study_file, folder, order)
        if as_json:
            print_json(_plain_plan(plan, _remarks(plan, study)))
        else:
            _print_plan(plan, _remarks(plan, study))
        if not dry_run:
            raise UserError(
                Fault(
                    what="the test split stays closed: it is opened once, and that is to be said",
                    where="--yes",
                    hint="Add --yes to open it",
                )
            )
        again = {"--test": test, "--repeat": repeat, "--reason": order.reason}
        name_next("open-test", study, "--yes", *options(again))
        return
    with telling() as progress:
        opened = carry_out(study_file, folder, order, progress=progress)
    _print(opened, recorded_openings(folder), study, as_json=as_json)
    name_next("report", study)


def _reason(reason: str | None, *, is_repeat: bool) -> str | None:
    """Returns why the test split is opened again; None for the first time.

    Raises:
        UserError: One of the two options is given without the other.
    """
    if is_repeat == bool(reason and reason.strip()):
        return reason
    raise UserError(
        Fault(
            what="an opening that repeats one needs a reason, and no other opening has one",
            where="--repeat, --reason",
            expected='--repeat --reason "WHY"',
        )
    )


def _show_first(folder: StudyFolder, study: Path, *, as_json: bool) -> None:
    """Prints the first opening, where there is one: what follows is refused."""
    openings = recorded_openings(folder)
    if openings.results:
        if not as_json:
            write(f"The test split was opened before, at {openings.result_links[0].at}:\n")
        _print(openings.results[0], openings, study, as_json=as_json)


def _print_plan(plan: OpeningPlan, remarks: list[str]) -> None:
    write(f"Frozen: {plan.frozen.sentence}", style="bold")
    records = "records" if plan.records is None else f"{plan.records} records"
    write(f"Test split: {records} with digest {plan.sealed}")
    rows = [
        {
            "role": checkpoint.role.value,
            "arm": checkpoint.arm,
            "seed": checkpoint.seed,
            "validation": checkpoint.validation_loss,
        }
        for checkpoint in plan.request.checkpoints
    ]
    write("\nWould be evaluated on all of it, in one shot", style="bold")
    print_columns(columns_from(rows, units=_UNITS))
    for sentence in remarks:
        write(f"\n{sentence}")


def _remarks(plan: OpeningPlan, study: Path) -> list[str]:
    """Returns what is to be known: openings without a result, and who has seen the same split."""
    taken = taken_choice(study)
    seen = None if taken is None else taken.seen(plan.sealed)
    return [each for each in (aborted_openings(plan.openings), seen) if each is not None]


def _plain_plan(plan: OpeningPlan, remarks: list[str]) -> dict[str, object]:
    """Returns the plan with the names that a result has, and nothing of what is not known yet."""
    return {
        "frozen": plan.digest,
        "chosen": plan.frozen.arm,
        "sentence": plan.frozen.sentence,
        "records_digest": plan.sealed,
        "records": plan.records,
        "checkpoints": [
            {
                "role": checkpoint.role.value,
                "arm": checkpoint.arm,
                "seed": checkpoint.seed,
                "validation_loss": checkpoint.validation_loss,
            }
            for checkpoint in plan.request.checkpoints
        ],
        "reason": plan.reason,
        "sentences": remarks,
    }


def _print(opened: Opened, openings: Openings, study: Path, *, as_json: bool) -> None:
    verdict = judge_opened(opened, OpenedRule.of(compare(study)))
    marks = [
        mark for mark in (times_evaluated(openings), aborted_openings(openings)) if mark is not None
    ]
    if as_json:
        print_json(_plain(opened, verdict, marks))
        return
    for mark in marks:
        write(mark, style="bold")
    for sentence in verdict_sentences(verdict):
        write(sentence)
    write(
        f"\nLosses, nats per target token, over {opened.records} of {opened.records_read} test "
        f"records ({opened.target_tokens} target tokens)",
        style="bold",
    )
    rows = [_row(opened, index) for index in range(len(opened.losses))]
    print_columns(columns_from(rows, units=_UNITS))
    write("\nOverlap", style="bold")
    for sentence in overlap_sentences(opened):
        write(sentence)
    tell(f"Test records: {opened.records_digest}. Frozen choice: {opened.frozen}")


def _row(opened: Opened, index: int) -> dict[str, object]:
    loss = opened.losses[index]
    known = loss.test_loss
    return {
        "model": "untrained" if loss.role is Role.INITIAL else loss.arm,
        "seed": loss.seed,
        "validation": loss.validation_loss,
        "test": known,
        "test - validation": None if known is None else f"{known - loss.validation_loss:+.4f}",
    }


def _plain(opened: Opened, verdict: OpenedVerdict, marks: list[str]) -> dict[str, object]:
    found = verdict.difference
    interval = None if found is None else found.interval_95
    return {
        **opened.to_entry(),
        "word": None if verdict.word is None else verdict.word.value,
        "gaps": {gap.role.value: gap.gap for gap in verdict.gaps},
        "selection_part": verdict.selection_part,
        "test_difference": None if found is None else found.mean,
        "test_difference_low": None if interval is None else interval.low,
        "test_difference_high": None if interval is None else interval.high,
        "test_p": None if found is None else found.p,
        "validation_difference": None if found is None else found.validation_mean,
        "shrinkage": None if found is None else found.shrinkage,
        "sentences": [*marks, *verdict_sentences(verdict)],
    }
