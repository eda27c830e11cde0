"""The entry point: commands by name, and how an error becomes a message and an exit status."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from sweeper.cli.amend import amend
from sweeper.cli.attach import attach
from sweeper.cli.audit import audit
from sweeper.cli.cancel import cancel
from sweeper.cli.check import check
from sweeper.cli.clean import clean
from sweeper.cli.columns import columns
from sweeper.cli.compare import compare
from sweeper.cli.diagnose import diagnose
from sweeper.cli.digest import digest
from sweeper.cli.exit_status import ExitStatus
from sweeper.cli.export import export
from sweeper.cli.init import init
from sweeper.cli.logs import logs
from sweeper.cli.ls import ls
from sweeper.cli.open_test import open_test
from sweeper.cli.output import never_fail_on_characters, tell, write
from sweeper.cli.rebuild import rebuild
from sweeper.cli.replay import replay
from sweeper.cli.report import report
from sweeper.cli.retry import retry
from sweeper.cli.run import run
from sweeper.cli.select import select
from sweeper.cli.show import show
from sweeper.cli.status import status
from sweeper.cli.tables import (
    arms,
    attempts,
    cost,
    differences,
    evaluations,
    exposure,
    metrics,
    stability,
    trials,
    updates,
)
from sweeper.cli.worker import worker
from sweeper.errors import SweeperError, UserError

DEBUG = "--debug"

_COMMANDS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (init, ("sweeper init", "sweeper init rate-study")),
    (check, ("sweeper check study.yaml", "sweeper check study.yaml --json > check.json")),
    (run, ("sweeper run study.yaml", "sweeper run study.yaml --as second-try")),
    (status, ("sweeper status study.yaml", "sweeper status runs/learning-rate")),
    (
        trials,
        (
            "sweeper trials study.yaml",
            "sweeper trials study.yaml --columns trial,reason,detail",
            "sweeper trials study.yaml --csv > trials.csv",
        ),
    ),
    (
        updates,
        (
            "sweeper updates study.yaml double/2",
            "sweeper updates study.yaml --parquet updates.parquet",
        ),
    ),
    (
        evaluations,
        ("sweeper evaluations study.yaml double/2", "sweeper evaluations study.yaml --csv"),
    ),
    (attempts, ("sweeper attempts study.yaml double/2", "sweeper attempts study.yaml --json")),
    (arms, ("sweeper arms study.yaml", "sweeper arms study.yaml --latex > arms.tex")),
    (
        differences,
        ("sweeper differences study.yaml", "sweeper differences study.yaml --markdown"),
    ),
    (exposure, ("sweeper exposure study.yaml",)),
    (stability, ("sweeper stability study.yaml",)),
    (cost, ("sweeper cost study.yaml", "sweeper cost study.yaml --csv > cost.csv")),
    (metrics, ("sweeper metrics study.yaml",)),
    (columns, ("sweeper columns", "sweeper columns arms --markdown")),
    (show, ("sweeper show study.yaml double/2",)),
    (
        diagnose,
        ("sweeper diagnose study.yaml double/2", "sweeper diagnose study.yaml double/2 --json"),
    ),
    (
        replay,
        (
            "sweeper replay study.yaml double/2",
            "sweeper replay study.yaml double/2 --set training.learning_rate=1e-4",
            "sweeper replay study.yaml double/2 --windows 50 --without-record 1234",
        ),
    ),
    (compare, ("sweeper compare study.yaml", "sweeper compare study.yaml --json")),
    (
        select,
        (
            "sweeper select study.yaml --dry-run",
            "sweeper select study.yaml",
            'sweeper select study.yaml --partial --reason "the machine is needed"',
        ),
    ),
    (audit, ("sweeper audit study.yaml", "sweeper audit study.yaml --head 707814cfaa5b")),
    (
        open_test,
        (
            "sweeper open-test study.yaml --dry-run",
            "sweeper open-test study.yaml --yes",
            "sweeper open-test study.yaml --yes --test sealed.jsonl",
        ),
    ),
    (
        digest,
        (
            "sweeper digest test.jsonl",
            "sweeper digest test.jsonl --field prompt=question --field answer=reply",
        ),
    ),
    (report, ("sweeper report study.yaml", "sweeper report study.yaml --out for-others")),
    (
        export,
        (
            "sweeper export study.yaml chosen",
            "sweeper export study.yaml chosen --merged",
            "sweeper export study.yaml half-2 --trial half/2",
        ),
    ),
    (
        logs,
        ("sweeper logs study.yaml double/2", "sweeper logs study.yaml double/2 --follow"),
    ),
    (ls, ("sweeper ls", "sweeper ls experiments --json")),
    (retry, ("sweeper retry study.yaml double/2",)),
    (amend, ("sweeper amend study.yaml --limit wall_clock=4h",)),
    (attach, ("sweeper attach study.yaml metrics.csv",)),
    (cancel, ("sweeper cancel study.yaml double/2", "sweeper cancel study.yaml")),
    (clean, ("sweeper clean study.yaml --dry-run", "sweeper clean study.yaml")),
    (worker, ("sweeper worker study.yaml",)),
    (
        rebuild,
        ("sweeper rebuild runs/learning-rate --dry-run", "sweeper rebuild runs/learning-rate"),
    ),
)
"""Every command with examples of it, in the order in which somebody needs them."""

_RUN_BARE = frozenset({init, ls, columns})
"""Commands that need no argument."""


def application() -> typer.Typer:
    """Returns the command line with all its commands."""
    app = typer.Typer(
        name="sweeper",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help=(
            "Controlled hyperparameter sweeps for language-model fine-tuning: one question, "
            "fixed seeds, one token budget, every trial on record."
        ),
        epilog="STUDY is a study file or its run folder. Start with: sweeper init",
    )
    app.callback()(_global_options)
    for command, examples in _COMMANDS:
        listed = "".join(f"\n  {example}" for example in examples)
        epilog = f"\b\nExample{'s' if len(examples) > 1 else ''}:{listed}"
        app.command(no_args_is_help=command not in _RUN_BARE, epilog=epilog)(command)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Runs one command and ends the process with its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    never_fail_on_characters()
    try:
        application()([argument for argument in given if argument != DEBUG], prog_name="sweeper")
    except SystemExit as end:
        # What is told by 1 elsewhere is no failure of ours: the reader of a pipe has left.
        sys.exit(
            ExitStatus.READER_LEFT if isinstance(end.__context__, BrokenPipeError) else end.code
        )
    except SweeperError as error:
        sys.exit(_told(error, debug=debug))
    except Exception as error:  # noqa: BLE001  # the process boundary: nothing may pass it raw
        sys.exit(_surprised(error, debug=debug))


def _told(error: SweeperError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    for fault in error.faults:
        tell(f"error: {fault}")
    mistake = isinstance(error, UserError)
    return ExitStatus.USER_MISTAKE if mistake else ExitStatus.OUR_FAILURE


def _surprised(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    tell(
        f"error: sweeper failed unexpectedly: {type(error).__name__}: {error}. "
        "Nothing recorded is lost."
        + ("" if debug else " Run the same command with --debug and report what it prints.")
    )
    return ExitStatus.OUR_FAILURE


def _print_version(is_asked: bool) -> None:
    if is_asked:
        write(f"sweeper {version('sweeper')}")
        raise typer.Exit


def _global_options(
    show_version: Annotated[  # its callback acts on it
        bool,
        typer.Option(
            "--version", help="Print the version and end.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[  # `main` looks for it, anywhere on the line
        bool, typer.Option(DEBUG, help="Show tracebacks; may stand anywhere on the line.")
    ] = False,
) -> None:
    """Options that belong to no command."""
