"""`sweeper status`: where a study stands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, print_json, write
from sweeper.cli.plain import plain
from sweeper.cli.wording import counted, ending
from sweeper.errors import SweeperError
from sweeper.records import OutcomeKind
from sweeper.report.columns import NATS
from sweeper.report.recorded import run_folder, study_to_run
from sweeper.report.standing import Ending, Mark, RunningTrial, Standing, standing
from sweeper.store.status import CellStatus
from sweeper.sweep.settling import settle_leftovers


def status(study: Study, as_json: AsJson = False) -> None:
    """Print how many trials are where, and what runs.

    It may be asked at any time, also while another process runs the study. Trials that a run left
    when it was killed are put on record as lost first, if this user may write there.
    """
    found = standing(study)
    if found.left:
        _settle(study)
        found = standing(study)
    if as_json:
        print_json(plain(found))
    else:
        _print(found)
    if found.is_finished:
        name_next("compare", study)
    elif found.is_attended:
        name_next("status", study, remark="while it runs")
    else:
        name_next("run", study, remark="goes on")


def _settle(study: Path) -> None:
    with contextlib.suppress(SweeperError):  # as of a run folder that was moved
        settle_leftovers(study_to_run(study), run_folder(study), observer=Lines(sys.stderr))


def _print(found: Standing) -> None:
    write(f"{found.name}  {found.folder}", style="bold")
    total = sum(found.counts.values())
    counts = counted(_in_words(found))
    write(f"{total} trials of {found.budget_target_tokens} target tokens: {counts}")
    if found.ended_why is not None:
        write(f"Ended: {found.ended_why}")
    _print_extensions(found)
    _print_part("Not completed", map(_ended, found.endings))
    _print_part("Lost with the process that ran them", map(_left, found.left))
    _print_part("Waiting to be resumed", map(_ended, found.resumable))
    _print_part("Waiting for another slot", (f"{each.trial}: {each.why}" for each in found.waiting))
    _print_part("Resumed elsewhere", map(_resumed, found.resumed_elsewhere))
    running = [trial for trial in found.running if not trial.is_left]
    if running:
        write("\nRunning", style="bold")
        rows = [_row(trial, found.budget_target_tokens) for trial in running]
        print_columns(columns_from(rows, units={"loss": NATS}))
    for owner in dict.fromkeys(map(_owner, running)):
        write(owner)


def _print_part(title: str, lines: Iterable[str]) -> None:
    """Writes lines under their title; nothing where there are none."""
    for place, line in enumerate(lines):
        if place == 0:
            write(f"\n{title}", style="bold")
        write(line)


def _ended(each: Ending) -> str:
    return ending(each.trial, each.outcome, each.reason, each.detail)


def _left(trial: RunningTrial) -> str:
    return (
        f"{trial.trial}, attempt {trial.attempt}: process {trial.pid} on {trial.host} is gone; "
        "the next run takes it up"
    )


def _resumed(mark: Mark) -> str:
    differences = "; ".join(mark.differences)
    return f"{mark.trial}, attempt {mark.attempt}, after window {mark.after_window}: {differences}"


def _in_words(found: Standing) -> Mapping[str, int]:
    """Returns the counts, with what a dead process left as lost and not as running."""
    left = len(found.left)
    counts: dict[str, int] = {}
    for name, count in found.counts.items():
        if left and name == CellStatus.RUNNING.value:
            lost = OutcomeKind.LOST.value
            counts |= {lost: counts.get(lost, 0) + left, name: count - left}
        else:
            counts[name] = count
    return {name: count for name, count in counts.items() if count}


def _print_extensions(found: Standing) -> None:
    for each in found.extensions:
        write(f"Round {each.round}: {each.arm} ({each.value:.4g}) was added")


def _row(trial: RunningTrial, budget_target_tokens: int) -> dict[str, object]:
    share = trial.target_tokens_read / budget_target_tokens
    return {
        "trial": trial.trial,
        "slot": trial.slot,
        "target tokens": f"{trial.target_tokens_read} ({share:.0%})",
        "loss": trial.loss,
        "attempt": trial.attempt,
        "since": trial.since,
    }


def _owner(trial: RunningTrial) -> str:
    state = {True: "which is alive", False: "which is gone", None: "on another host than this"}
    told = state[trial.owner_is_alive]
    if trial.owner_is_alive is None and trial.silent_since is not None:
        since = datetime.fromisoformat(trial.silent_since)
        told += f", which is silent: its lease expired at {since:%Y-%m-%d %H:%M} UTC"
    return f"Run by process {trial.pid} on {trial.host}, {told}."
