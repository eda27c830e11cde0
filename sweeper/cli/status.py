"""`sweeper status`: where a study stands."""

from __future__ import annotations

from datetime import datetime

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.output import name_next, print_json, write
from sweeper.cli.plain import plain
from sweeper.cli.wording import counted, ending
from sweeper.report.columns import NATS
from sweeper.report.standing import RunningTrial, Standing, standing


def status(study: Study, as_json: AsJson = False) -> None:
    """Print how many trials are where, and what runs.

    It may be asked at any time, also while another process runs the study.
    """
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


def _print(found: Standing) -> None:
    write(f"{found.name}  {found.folder}", style="bold")
    total = sum(found.counts.values())
    write(f"{total} trials of {found.budget_target_tokens} target tokens: {counted(found.counts)}")
    if found.ended_why is not None:
        write(f"Ended: {found.ended_why}")
    _print_extensions(found)
    if found.endings:
        write("\nNot completed", style="bold")
    for each in found.endings:
        write(ending(each.trial, each.outcome, each.reason, each.detail))
    if found.waiting:
        write("\nWaiting for another slot", style="bold")
    for waiting in found.waiting:
        write(f"{waiting.trial}: {waiting.why}")
    if found.resumed_elsewhere:
        write("\nResumed elsewhere", style="bold")
    for mark in found.resumed_elsewhere:
        differences = "; ".join(mark.differences)
        write(
            f"{mark.trial}, attempt {mark.attempt}, after window {mark.after_window}: {differences}"
        )
    if found.running:
        write("\nRunning", style="bold")
        rows = [_row(trial, found.budget_target_tokens) for trial in found.running]
        print_columns(columns_from(rows, units={"loss": NATS}))
    for owner in dict.fromkeys(map(_owner, found.running)):
        write(owner)


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
