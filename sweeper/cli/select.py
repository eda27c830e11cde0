"""`sweeper select`: freeze the choice, after which the test split may be opened for it."""

from __future__ import annotations

import sys
from functools import partial as with_these
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, options, print_json, write
from sweeper.data.options import DataOptions
from sweeper.report.comparison import evidence
from sweeper.report.recorded import agreed_settings, reading, run_folder, study_to_run
from sweeper.selection.frozen import Frozen, Role
from sweeper.selection.opened_sentences import SPENT
from sweeper.selection.wording import listing
from sweeper.sweep.freezing import Freeze, Wish, choice_of, freeze


def select(
    study: Study,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Freeze without the trials that are open, for good."),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Why; is put on record and shown."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be frozen; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Freeze the choice that the agreed rule makes, and close the study.

    Protocol, tables and weights are put on record by their digests; the weights' are taken anew,
    from the files. Nothing of the study runs afterwards. `open-test` opens the test split for this
    choice alone.
    """
    wish = Wish(partial=partial, reason=(reason or "").strip() or None)
    folder = run_folder(study)
    with reading(study) as store:
        settings = agreed_settings(store, folder)
    read = with_these(evidence, study=settings, folder=folder.path)
    if dry_run:
        with reading(study) as store:
            done = Freeze(choice=choice_of(store, folder, read, wish=wish), digest=None)
    else:
        study_file = study_to_run(study)
        done = freeze(study_file, folder, read, wish=wish, observer=Lines(sys.stderr))
    if as_json:
        print_json({"digest": done.digest, **done.choice.to_facts()})
    else:
        _print(done)
    if dry_run:
        name_next("select", study, *options({"--partial": partial, "--reason": wish.reason}))
    elif _has_test(settings.data):
        name_next("open-test", study, "--dry-run", remark="then with --yes, once")
    else:
        name_next("report", study)


def _has_test(data: DataOptions) -> bool:
    return data.test is not None or (data.split is not None and data.split.test > 0)


def _print(done: Freeze) -> None:
    choice = done.choice
    verb = "Would freeze" if done.digest is None else "Frozen"
    write(f"{verb}: {choice.arm}", style="bold")
    write(choice.sentence)
    write(f"Answer: {choice.answer}")
    for sentence in _remarks(choice):
        write(sentence)
    for checkpoint in choice.checkpoints:
        if checkpoint.path is not None:
            trial = f"{checkpoint.arm}/{checkpoint.seed}"
            write(f"  {trial}  {checkpoint.path}  {checkpoint.sha256}")
    untrained = sum(checkpoint.role is Role.INITIAL for checkpoint in choice.checkpoints)
    write(f"  and the untrained model, as {untrained} seeds began with it")
    if done.digest is not None:
        write(f"Head of the chain: {done.digest}")
        write("Keep the head elsewhere, in a commit for instance: `sweeper audit --head` takes it.")


def _remarks(choice: Frozen) -> list[str]:
    remarks = []
    if choice.open_trials:
        remarks.append(f"Partial: {listing(choice.open_trials)} never came to an end.")
    if choice.without_weights:
        remarks.append(f"Without weights, and not evaluated: {listing(choice.without_weights)}.")
    if choice.number > 1:
        remarks.append(f"Frozen {choice.number} times by now.")
    if choice.reasons:
        remarks.append(f"Reasons given: {'; '.join(choice.reasons)}.")
    if choice.is_spent:
        remarks.append(SPENT)
    return remarks
