"""A study's tables as commands: `sweeper trials`, `sweeper arms` and their like.

They differ in what they read and show, and share their options and forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import (
    AsCsv,
    AsJson,
    AsLatex,
    AsMarkdown,
    AsParquet,
    Columns,
    Study,
)
from sweeper.cli.forms import Form, print_table
from sweeper.cli.layout import columns_of, print_columns
from sweeper.cli.output import name_next, write
from sweeper.report.arm_sheet import arm_sheet
from sweeper.report.arm_tables import arm_table, difference_table
from sweeper.report.columns import LEARNING_RATE, Table
from sweeper.report.comparison import compare
from sweeper.report.glossary import described
from sweeper.report.recorded import reading, recorded_settings, run_folder
from sweeper.report.run_columns import METRIC, SECONDARY
from sweeper.report.run_tables import cost_table, exposure_table, metric_table, stability_table
from sweeper.report.sheets import Sheet
from sweeper.report.tables import attempt_table, evaluation_table, trial_table, update_table

OneTrial = Annotated[
    str | None,
    typer.Argument(metavar="[TRIAL]", help="One trial, as in double/2; all without it."),
]

FACTOR = LEARNING_RATE.name
"""Stands among columns for that of the factor, whatever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table as a command.

    Attributes:
        help: What the command is for.
        read: From a study, and a trial where the table is asked for by trial.
        shown: The columns people see unless they name others, the most important first.
        following: The command that comes next; TRIAL stands for the trial asked for.
        sheet: How it looks in Markdown and LaTeX, if not with the columns shown.
    """

    name: str
    help: str
    read: Callable[[Path, str | None], Table]
    shown: tuple[str, ...]
    following: str = "compare"
    sheet: Callable[[Path], Sheet] | None = None


def of_study(listing: Listing) -> Callable[..., None]:
    """Returns the command that prints a study's table."""

    def command(  # noqa: PLR0913  # what the command line offers
        study: Study,
        *,
        columns: Columns = None,
        as_json: AsJson = False,
        as_csv: AsCsv = False,
        parquet: AsParquet = None,
        markdown: AsMarkdown = False,
        latex: AsLatex = False,
    ) -> None:
        _print(listing, study, None, _form(columns, as_json, as_csv, parquet, markdown, latex))

    return _named(command, listing)


def by_trial(listing: Listing) -> Callable[..., None]:
    """Returns the command that prints a table of one trial, or of all."""

    def command(  # noqa: PLR0913  # what the command line offers
        study: Study,
        trial: OneTrial = None,
        *,
        columns: Columns = None,
        as_json: AsJson = False,
        as_csv: AsCsv = False,
        parquet: AsParquet = None,
        markdown: AsMarkdown = False,
        latex: AsLatex = False,
    ) -> None:
        _print(listing, study, trial, _form(columns, as_json, as_csv, parquet, markdown, latex))

    return _named(command, listing)


def _form(  # what the command line offers
    columns: str | None,
    as_json: bool,
    as_csv: bool,
    parquet: Path | None,
    markdown: bool,
    latex: bool,
) -> Form:
    return Form(
        json=as_json, csv=as_csv, parquet=parquet, markdown=markdown, latex=latex, columns=columns
    )


def _named(command: Callable[..., None], listing: Listing) -> Callable[..., None]:
    command.__name__ = listing.name
    command.__doc__ = listing.help
    return command


def _print(listing: Listing, study: Path, trial: str | None, form: Form) -> None:
    table = listing.read(study, trial)
    shown = _shown(listing, table)
    own = [name for name in table.names() if name.startswith(METRIC)]
    if form.is_for_people:
        table = _with_open_trials(table)
        if table.title:
            write(table.title, style="bold")
    elif form.markdown or form.latex:
        shown = (*shown, *own)
    sheet = None if listing.sheet is None or form.is_for_people else listing.sheet(study)
    print_table(table, form, shown=shown, name=listing.name, sheet=sheet)
    if own and form.is_for_people:
        write(f"\nMetrics that users attached: {SECONDARY}", style="bold")
        print_columns(columns_of(table.only(["trial", *own])))
    first = next((str(row["trial"]) for row in table.rows if "trial" in row), "ARM/SEED")
    _name_following(listing, study, trial or first)


def _shown(listing: Listing, table: Table) -> tuple[str, ...]:
    """Returns the columns with the factor's in its place.

    Arms of another factor than the rate may differ in their updates: those stand right beside it.
    """
    columns, names = list(described(listing.name).columns), table.names()
    if FACTOR in names or LEARNING_RATE not in columns:
        return listing.shown
    factor = names[columns.index(LEARNING_RATE)]
    made = tuple(name for name in _UPDATES_MADE if name in names)
    others = [factor if name == FACTOR else name for name in listing.shown if name not in made]
    place = others.index(factor) + 1 if factor in others else 1
    return (*others[:place], *made, *others[place:])


_UPDATES_MADE = ("updates", "baseline_updates")


def _with_open_trials(table: Table) -> Table:
    """Shows how far a trial without an outcome is where its outcome will stand."""
    if not {"outcome", "status"} <= {*table.names()}:
        return table
    rows = [row | {"outcome": row["outcome"] or row["status"]} for row in map(dict, table.rows)]
    return Table(rows=rows, columns=table.columns, title=table.title)


def _name_following(listing: Listing, study: Path, trial: str) -> None:
    command, _, wants_trial = listing.following.partition(" ")
    words: Sequence[object] = [command, study]
    name_next(*words, *([trial] if wants_trial else []))


def _arm_sheet(study: Path) -> Sheet:
    with reading(study) as store:
        budget = store.study().budget_target_tokens
    settings = recorded_settings(run_folder(study))
    return arm_sheet(compare(study), settings, budget_target_tokens=budget)


TRIALS = Listing(
    name="trials",
    help="""Print one row per trial.

    Failed and open trials are rows too; nothing is left out. A loss at the end of the budget is
    there for completed trials only.
    """,
    read=lambda study, _: trial_table(study),
    shown=(
        *("trial", FACTOR, "outcome", "reason", "initial_loss", "validation_loss"),
        *("last_finite_loss", "retention_loss", "target_tokens_read", "updates", "skipped"),
        *("clipped", "wall_seconds", "attempts"),
    ),
)
UPDATES = Listing(
    name="updates",
    help="""Print one row per window.

    What was done again after a loss is there once. Windows that ended in no update are rows too,
    with the reason.
    """,
    read=update_table,
    shown=(
        *("trial", "window", "loss", "learning_rate", "target_tokens_read", "gradient_norm"),
        *("clipped", "ran", "skip", "updates", "target_tokens", "seconds"),
    ),
    following="show TRIAL",
)
EVALUATIONS = Listing(
    name="evaluations",
    help="""Print one row per evaluation.

    Of both splits, the one before the first update included; what was done again after a loss is
    there once.
    """,
    read=evaluation_table,
    shown=(
        *("trial", "split", "grid_index", "target_tokens_read", "loss", "updates"),
        *("target_tokens", "records", "seconds"),
    ),
    following="show TRIAL",
)
ATTEMPTS = Listing(
    name="attempts",
    help="""Print one row per execution of a trial.

    Those included that were lost and followed by another.
    """,
    read=attempt_table,
    shown=(
        *("trial", "attempt", "outcome", "reason", "updates", "wall_seconds", "slot", "claimed_at"),
        *("ended_at", "resumed_after_window", "exit_status", "peak_memory_bytes"),
    ),
    following="show TRIAL",
)
ARMS = Listing(
    name="arms",
    help="""Print one row per arm.

    What its trials came to, failures and missing ones counted. Losses are of completed trials
    only, and say so where these are not all.
    """,
    read=lambda study, _: arm_table(compare(study)),
    shown=(
        *("arm", FACTOR, "planned", "completed", "stopped", "mean", "losses_of", "sd", "mean_best"),
        *("difference", "difference_low", "difference_high", "p_holm", "lower_in", "verdict"),
    ),
    sheet=_arm_sheet,
)
DIFFERENCES = Listing(
    name="differences",
    help="""Print one row per arm: how it differs from the baseline.

    Paired over seeds; negative where the arm is lower.
    """,
    read=lambda study, _: difference_table(compare(study)),
    shown=(
        *("arm", FACTOR, "pairs", "mean", "low_95", "high_95", "p", "p_holm", "lower_in"),
        *("sd", "resolution", "noise_floor", "retention", "verdict"),
    ),
)
EXPOSURE = Listing(
    name="exposure",
    help="""Print what each trial was to read, and what it read.

    Target tokens read and applied, records, padding, windows, updates, skips.
    """,
    read=lambda study, _: exposure_table(study),
    shown=(
        *("trial", "outcome", "target_tokens_planned", "target_tokens_read"),
        *("target_tokens_applied", "applied_share", "records", "input_tokens", "padding_tokens"),
        *("windows_planned", "windows", "updates", "skipped"),
    ),
    following="stability",
)
STABILITY = Listing(
    name="stability",
    help="""Print how steadily each trial ran.

    Clipping, skipped windows, gradient norms, loss spikes, and why it ended.
    """,
    read=lambda study, _: stability_table(study),
    shown=(
        *("trial", "outcome", "reason", "updates", "clip_rate", "skipped", "gradient_norm_p50"),
        *("gradient_norm_p99", "gradient_norm_max", "loss_spikes", "largest_spike"),
        *("last_finite_loss",),
    ),
    following="cost",
)
COST = Listing(
    name="cost",
    help="""Print what each trial cost.

    Seconds by kind of work, peak memory, and work that was done again after a loss.
    """,
    read=lambda study, _: cost_table(study),
    shown=(
        *("trial", "outcome", "attempts", "wall_seconds", "training_seconds"),
        *("evaluating_seconds", "checkpointing_seconds", "loading_seconds"),
        *("seconds_per_1000_target_tokens", "repeated_windows", "repeated_seconds"),
        *("peak_memory_bytes",),
    ),
)
METRICS = Listing(
    name="metrics",
    help="""Print the metrics that users attached to trials.

    They are secondary: nothing is selected on them.
    """,
    read=lambda study, _: metric_table(study),
    shown=("trial", "metric", "value", "source", "at"),
)

trials = of_study(TRIALS)
updates = by_trial(UPDATES)
evaluations = by_trial(EVALUATIONS)
attempts = by_trial(ATTEMPTS)
arms = of_study(ARMS)
differences = of_study(DIFFERENCES)
exposure = of_study(EXPOSURE)
stability = of_study(STABILITY)
cost = of_study(COST)
metrics = of_study(METRICS)
