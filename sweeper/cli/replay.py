"""`sweeper replay`: run the last windows of a trial again, and see whether it goes the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.output import name_next, print_json, write
from sweeper.cli.plain import plain
from sweeper.cli.progress import telling
from sweeper.cli.replay_wording import heading, sentences
from sweeper.errors import Fault, NotFound, UserError
from sweeper.report.columns import NATS
from sweeper.report.history import History, history
from sweeper.study.folder import StudyFolder
from sweeper.sweep.replaying import Replay, ReplayOrder
from sweeper.sweep.replaying import replay as carry_out
from sweeper.trial.replay.report import ReplayReport
from sweeper.trial.replay.request import Change, OtherPrecision, OtherRate, WithoutRecord

LAST_WINDOWS = 5

_RATE = "training.learning_rate"
_PRECISION = "training.precision"
_UNITS = {"recorded_loss": NATS, "replayed_loss": NATS}


def replay(  # noqa: PLR0913, PLR0917  # each is an option of the command
    study: Study,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Arm and seed, as in double/2.")],
    windows: Annotated[
        int | None,
        typer.Option(
            "--windows",
            metavar="N",
            min=1,
            help="At least the last N windows; without, from the checkpoint before it went wrong.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"Change {_RATE} or {_PRECISION}, and nothing else.",
        ),
    ] = None,
    without_record: Annotated[
        list[str] | None,
        typer.Option(
            "--without-record",
            metavar="RECORD",
            help="Leave one record out: its index in the training split, or how its digest begins.",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="K", help="Another attempt than the latest one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a trial's last windows again, and compare.

    It starts from the newest checkpoint before the trial went wrong (before its last window, if it
    did not), or from the beginning; every loss and norm is compared with the record, bit by bit.
    Where a stop condition fired, it says whether, and at which window, micro-batch and tensor, that
    happens again. One thing may be changed. The trial itself stays as it is.
    """
    change = one_change(settings or (), without_record or ())
    found = history(study, trial)
    row = chosen_attempt(found, attempt)
    order = ReplayOrder(
        folder=StudyFolder(found.folder),
        trial=trial,
        attempt=str(row["folder"]),
        environment=_environment(row),
        windows=windows,
        change=change,
    )
    with telling() as progress:
        done = carry_out(order, progress=progress)
    if as_json:
        print_json({"folder": str(done.folder), **_plain(done.report)})
    else:
        _print(done, row)
    name_next("diagnose" if done.report.recorded is not None else "show", study, trial)


def one_change(settings: Sequence[str], without_record: Sequence[str]) -> Change | None:
    """Returns the change that was asked for; None when there is none.

    Raises:
        UserError: There are two, or it is none of the three that there are.
    """
    asked = [*settings, *(f"--without-record {record}" for record in without_record)]
    if len(asked) > 1:
        raise UserError(
            Fault(
                what="a replay changes one thing, or it would not show which of them matters",
                got=", ".join(asked),
                expected="one --set, or one --without-record",
                hint="Run one replay for each",
            )
        )
    if settings:
        return _setting(settings[0])
    return WithoutRecord(record=without_record[0]) if without_record else None


def chosen_attempt(found: History, number: int | None) -> Mapping[str, object]:
    """Returns the row of the attempt with the number, or of the latest one that has read anything.

    Raises:
        NotFound: There is no such attempt.
    """
    begun = [row for row in found.attempts if row["resumed_after_window"] is not None]
    if number is None and begun:
        return begun[-1]
    for row in found.attempts:
        if row["attempt"] == number:
            return row
    trial = found.trial.records()[0]["trial"]
    attempts = ", ".join(str(row["attempt"]) for row in found.attempts)
    raise NotFound(
        Fault(
            what=f"{trial} has no attempt to replay"
            if number is None
            else f"{trial} has no attempt {number}",
            expected=attempts or None,
            hint="`sweeper show` lists what there is of the trial",
        )
    )


def _setting(text: str) -> Change:
    key, equals, value = text.partition("=")
    if equals and key == _RATE:
        return _other_rate(value)
    if equals and key == _PRECISION:
        return _other_precision(value)
    raise UserError(
        Fault(
            what="a replay cannot change this" if equals else "--set takes KEY=VALUE",
            where="--set",
            got=text,
            expected=f"{_RATE}=RATE, {_PRECISION}=PRECISION, or --without-record RECORD instead",
        )
    )


def _other_rate(value: str) -> OtherRate:
    try:
        return OtherRate(value=float(value))
    except (ValueError, ValidationError) as error:
        expected = "a rate above 0 and at most 1, for instance 1e-4"
        raise UserError(
            Fault(what="this is no learning rate", where=_RATE, got=value, expected=expected)
        ) from error


def _other_precision(value: str) -> OtherPrecision:
    try:
        return OtherPrecision.model_validate({"value": value})
    except ValidationError as error:
        expected = "float32, bfloat16 or float16"
        raise UserError(
            Fault(what="this is no precision", where=_PRECISION, got=value, expected=expected)
        ) from error


def _environment(row: Mapping[str, object]) -> Mapping[str, str]:
    environment = row["environment"]
    return environment if isinstance(environment, Mapping) else {}


def _plain(report: ReplayReport) -> Mapping[str, object]:
    values = plain(report)
    assert isinstance(values, Mapping)
    return values


def _print(done: Replay, row: Mapping[str, object]) -> None:
    report = done.report
    write(heading(report, row), style="bold")
    for sentence in sentences(report):
        write(sentence)
    rows = [
        pair.model_dump(exclude={"is_equal"}) | {"equal": pair.is_equal}
        for pair in report.windows[-LAST_WINDOWS:]
    ]
    if rows:
        write(f"\nLast {len(rows)} windows" if len(rows) > 1 else "\nThe window", style="bold")
        print_columns(columns_from(rows, units=_UNITS))
    write(f"\nKept in {_near(done.folder)}")


def _near(folder: Path) -> Path:
    """Returns the folder as somebody who stands here would name it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
