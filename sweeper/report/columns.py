"""What each column of a table is called, its unit, and what it means.

The columns of a table are these, in this order, in pandas, JSON, CSV, Parquet and the database's
views alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import pandas as pd

from sweeper.errors import Fault, NotFound, nearest

Kind = Literal["text", "integer", "number", "flag"]

_DTYPES: Mapping[Kind, str] = MappingProxyType(
    {
        "text": "str",
        "integer": "Int64",
        "number": "float64",
        "flag": "boolean",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        kind: What it holds. Integers and flags keep an unknown value apart as pandas' NA; an
            unknown number is NaN, as pandas users expect.
        unit: None for names, digests and shares of nothing.
        error: Column with its standard error, to whose precision people are shown it.
    """

    name: str
    kind: Kind
    unit: str | None
    meaning: str
    error: str | None = None


def text(name: str, meaning: str) -> Column:
    """Returns a column of names, sentences or digests."""
    return Column(name=name, kind="text", unit=None, meaning=meaning)


def integer(name: str, unit: str | None, meaning: str) -> Column:
    """Returns a column of counts."""
    return Column(name=name, kind="integer", unit=unit, meaning=meaning)


def number(name: str, unit: str | None, meaning: str, *, error: str | None = None) -> Column:
    """Returns a column of measured or computed numbers."""
    return Column(name=name, kind="number", unit=unit, meaning=meaning, error=error)


def flag(name: str, meaning: str) -> Column:
    """Returns a column of yes and no."""
    return Column(name=name, kind="flag", unit=None, meaning=meaning)


NATS = "nats per target token"
SECONDS = "s"


def _phase(name: str) -> Column:
    meaning = f"time spent {name}, up to the last change of work that the trial reported"
    return number(f"{name}_seconds", SECONDS, meaning)


TRIAL = text("trial", "arm and seed: the cell's id")
ARM = text("arm", "name of the factor's value; baseline~repeat is none of them")
SEED = integer("seed", None, "governs data order, initialisation and dropout together")
_ATTEMPT = integer("attempt", None, "execution of the cell, from 1")
_SEQUENCE = integer("sequence", None, "place in the attempt's history, from 1")
_GRID_INDEX = integer("grid_index", None, "place on the nominal grid; 0 is before the first update")
_NONFINITE = text("nonfinite", "numbers of the row that were not finite, and what they were")
_AT = text("at", "when the trial wrote it, UTC")
LEARNING_RATE = number("learning_rate", None, "the arm's peak learning rate")
_READ = integer("target_tokens_read", "target tokens", "supervised tokens read so far")
_APPLIED = integer(
    "target_tokens_applied", "target tokens", "those of windows that ended in an update"
)

ROUND = integer("round", None, "0: an arm of the study file; an extension's round, from 1")

TRIALS: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    LEARNING_RATE,
    ROUND,
    text("status", "waiting, running, ended, or not_run because the study ended early"),
    text("outcome", "completed, stopped, limited, lost, failed or cancelled"),
    text("reason", "why it ended"),
    text("detail", "the sentence behind the reason, with its numbers"),
    number("initial_loss", NATS, "validation loss before the first update"),
    number("first_window_loss", NATS, "training loss of the first window, before any update"),
    number("validation_loss", NATS, "validation loss at the declared checkpoint"),
    number("last_finite_loss", NATS, "last finite loss of a window"),
    number("retention_initial_loss", NATS, "retention loss before the first update"),
    number("retention_loss", NATS, "retention loss at the declared checkpoint"),
    _READ,
    _APPLIED,
    integer("records", "records", "records read"),
    integer("input_tokens", "tokens", "input tokens read, padding left out"),
    integer("padding_tokens", "tokens", "padding positions that were computed"),
    integer("windows", "windows", "windows tried"),
    integer("updates", "updates", "updates that ran"),
    integer("skipped", "windows", "windows that ended in no update"),
    integer("clipped", "updates", "updates whose gradient was scaled down to the threshold"),
    number("wall_seconds", SECONDS, "wall-clock time of all attempts, evaluation included"),
    integer("peak_memory_bytes", "bytes", "largest sampled memory of the trial's processes"),
    integer("attempts", None, "executions of the cell"),
    text("adapter_path", "where the final adapter or model is, in the run folder"),
    text("best_path", "where the weights with the lowest validation loss are, in the run folder"),
    text("initial_digest", "SHA-256 of the initial trainable tensors"),
    text("record_digest", "rolling SHA-256 of the records read"),
    integer("optuna_number", None, "number of its trial in the Optuna study"),
    text("fingerprint", "SHA-256 of what is studied"),
)

UPDATES: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    _ATTEMPT,
    _SEQUENCE,
    integer("window", None, "index of the window in the plan, from 1"),
    integer("updates", "updates", "updates that had run, this one included"),
    integer("first_record", None, "position in the stream of the window's first record"),
    integer("records", "records", "records of the window"),
    text("record_digest", "rolling SHA-256 of the records read up to and with this window"),
    integer("target_tokens", "target tokens", "target tokens of the window"),
    _READ,
    _APPLIED,
    integer("input_tokens", "tokens", "input tokens of the window, padding left out"),
    integer("padding_tokens", "tokens", "padding positions that were computed"),
    number("learning_rate", None, "rate read back from the optimizer"),
    number("loss", NATS, "sum of token losses over the window's target tokens"),
    number("gradient_norm", None, "global norm before clipping"),
    flag("clipped", "whether the gradient was scaled down to the threshold"),
    flag("ran", "whether the window ended in an update"),
    text("skip", "why it did not"),
    number("loss_scale", None, "by which the loss was multiplied; empty without loss scaling"),
    number("seconds", SECONDS, "time the window took"),
    integer("peak_memory_bytes", "bytes", "largest memory so far that the process itself reports"),
    _NONFINITE,
    _AT,
)

EVALUATIONS: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    _ATTEMPT,
    _SEQUENCE,
    text("split", "validation or retention"),
    _GRID_INDEX,
    integer("window", None, "windows read when it was made"),
    _READ,
    integer("updates", "updates", "updates that had run"),
    number("loss", NATS, "sum of token losses / target tokens, over the whole split"),
    integer("target_tokens", "target tokens", "target tokens scored"),
    integer("records", "records", "records scored"),
    text("set_digest", "SHA-256 of the ordered records scored"),
    text("dtype", "precision of the forward passes"),
    integer("micro_batch", "records", "records per forward pass"),
    number("seconds", SECONDS, "time it took"),
    text("per_record_path", "where the records' own losses are, in the run folder"),
    text("per_record_sha256", "SHA-256 of that file"),
    _NONFINITE,
    _AT,
)

ATTEMPTS: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    _ATTEMPT,
    integer(
        "updates", "updates", "updates that it made, also where a later attempt made them again"
    ),
    integer("fencing_number", None, "grows with every claim of the cell"),
    text("worker", "coordinator that owned it"),
    text("host", "host of the coordinator"),
    integer("pid", None, "process of the coordinator"),
    text("process_started_at", "its start, in seconds since its host was booted, and which boot"),
    text("slot", "where it ran"),
    text("folder", "folder of the attempt"),
    text("claimed_at", "when the cell was claimed, UTC by the database's clock"),
    text("lease_expires_at", "until when the claim holds, UTC by the database's clock"),
    integer("supervisor_pid", None, "process of the supervisor"),
    text("supervisor_started_at", "its start, in seconds since its host was booted"),
    integer("child_pid", None, "process of the trial"),
    text("child_started_at", "its start, in seconds since its host was booted"),
    text("initial_digest", "SHA-256 of the initial trainable tensors"),
    integer("trainable_parameters", None, "trainable scalars"),
    text("adapted_modules", "modules that an adapter was put on, as JSON"),
    text("environment", "what it ran on, by field, as JSON"),
    text("configuration", "what the trial was told, by dotted key, as JSON"),
    integer(
        "resumed_after_window",
        None,
        "last window of the checkpoint that it went on from; 0: it began with the first window",
    ),
    integer("resumed_from_attempt", None, "attempt that had made that checkpoint"),
    text("resume_checkpoint", "folder of that checkpoint"),
    text("resume_differences", "what had changed since it was made, as JSON"),
    integer("checkpoint_window", None, "last window of the newest checkpoint that it made"),
    text("checkpoint_path", "where that one was written, in the run folder"),
    _phase("loading"),
    _phase("training"),
    _phase("evaluating"),
    _phase("checkpointing"),
    _phase("saving"),
    text("adapter_path", "where the final adapter or model is, in the run folder"),
    text("adapter_sha256", "SHA-256 over its files"),
    text("best_path", "where the weights with the lowest validation loss are, in the run folder"),
    text("best_sha256", "SHA-256 over its files"),
    text("evidence_path", "where the evidence of a stop is, in the run folder"),
    text("ended_at", "when it ended, UTC by the database's clock"),
    text("outcome", "completed, stopped, limited, lost, failed or cancelled"),
    text("reason", "why it ended"),
    text("detail", "the sentence behind the reason, with its numbers"),
    text("evidence", "further facts, as JSON"),
    integer("exit_status", None, "exit status of the child; negative: the signal"),
    number("wall_seconds", SECONDS, "wall-clock time of the child"),
    integer("peak_memory_bytes", "bytes", "largest sampled memory of the child's process tree"),
)


RECORD_LOSSES: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    text("split", "validation or retention"),
    _GRID_INDEX,
    text("digest", "SHA-256 of the record"),
    text("group", "group that the record belongs to"),
    integer("target_tokens", "target tokens", "target tokens of the record"),
    number("loss_sum", "nats", "sum of its token losses"),
)
"""Of each record at each evaluation; not in the database but in the files that it names."""


def trial_columns(factor_key: str, *, is_text: bool) -> tuple[Column, ...]:
    """Returns the columns of trials, that of the factor named by the factor's last key."""
    return with_factor(TRIALS, factor_key, is_text=is_text)


def with_factor(columns: Sequence[Column], factor_key: str, *, is_text: bool) -> tuple[Column, ...]:
    """Returns the columns with that of the factor in the place of the learning rate."""
    name = factor_key.rpartition(".")[2]
    if name == LEARNING_RATE.name:
        return tuple(columns)
    kind: Kind = "text" if is_text else "number"
    factor = Column(name=name, kind=kind, unit=None, meaning="the arm's value of the factor")
    return tuple(factor if column is LEARNING_RATE else column for column in columns)


def dtypes_of(columns: Sequence[Column]) -> dict[str, str]:
    """Returns the type that each column has in a frame, by its name."""
    return {column.name: _DTYPES[column.kind] for column in columns}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows as plain values, None where unknown; what the columns leave out is not shown.

    Attributes:
        title: What it is, for people; empty where its name says it.
    """

    rows: Sequence[Mapping[str, object]]
    columns: Sequence[Column]
    title: str = ""

    def names(self) -> list[str]:
        """Returns the columns' names."""
        return [column.name for column in self.columns]

    def only(self, names: Sequence[str]) -> Table:
        """Returns the table with these columns alone, in this order, each once.

        Raises:
            NotFound: A name is not a column; all such names are in it.
        """
        by_name = {column.name: column for column in self.columns}
        faults = [_no_column(name, self.names()) for name in names if name not in by_name]
        if faults:
            raise NotFound(*faults)
        chosen = [by_name[name] for name in dict.fromkeys(names)]
        return Table(rows=self.rows, columns=chosen, title=self.title)

    def records(self) -> list[dict[str, object]]:
        """Returns the rows with exactly the table's columns, in their order."""
        return [{column.name: row[column.name] for column in self.columns} for row in self.rows]

    def frame(self) -> pd.DataFrame:
        """Returns the table as a frame with exactly its columns and their types."""
        series = {
            column.name: pd.Series(
                [row[column.name] for row in self.rows], dtype=_DTYPES[column.kind]
            )
            for column in self.columns
        }
        frame = pd.DataFrame(series, columns=self.names())
        frame.attrs |= {"title": self.title} if self.title else {}
        return frame


def _no_column(name: str, names: Sequence[str]) -> Fault:
    close = nearest(name, names)
    return Fault(
        what=f"there is no column {name}",
        expected=", ".join(names),
        hint=f"Did you mean {close}?" if close else None,
    )
