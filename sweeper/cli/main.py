"""The entry point: commands by name, and how an error becomes a message and an exit status."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from typing import Annotated

import typer

from sweeper.cli.check import check
from sweeper.cli.compare import compare
from sweeper.cli.exit_status import ExitStatus
from sweeper.cli.init import init
from sweeper.cli.output import console
from sweeper.cli.run import run
from sweeper.cli.show import show
from sweeper.cli.status import status
from sweeper.cli.tables import trials, updates
from sweeper.errors import SweeperError, UserError

DEBUG = "--debug"


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
    for command in (init, check, run, status, trials, updates, show, compare):
        app.command(no_args_is_help=command is not init)(command)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Runs one command and ends the process with its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    try:
        application()([argument for argument in given if argument != DEBUG], prog_name="sweeper")
    except SweeperError as error:
        sys.exit(_told(error, debug=debug))
    except Exception as error:  # noqa: BLE001  # the process boundary: nothing may pass it raw
        sys.exit(_surprised(error, debug=debug))


def _told(error: SweeperError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    screen = console(sys.stderr)
    for fault in error.faults:
        screen.print(f"error: {fault}", markup=False)
    mistake = isinstance(error, UserError)
    return ExitStatus.USER_MISTAKE if mistake else ExitStatus.OUR_FAILURE


def _surprised(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
        return ExitStatus.OUR_FAILURE
    console(sys.stderr).print(
        f"error: sweeper failed unexpectedly: {type(error).__name__}: {error}. "
        "Nothing recorded is lost. Run the same command with --debug and report what it prints.",
        markup=False,
    )
    return ExitStatus.OUR_FAILURE


def _global_options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show tracebacks.")] = False,  # noqa: ARG001
) -> None:
    if show_version:
        console().print(f"sweeper {version('sweeper')}")
        raise typer.Exit
