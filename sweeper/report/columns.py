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
    """

    name: str
    kind: Kind
    unit: str | None
    meaning: str


def _text(name: str, meaning: str) -> Column:
    return Column(name=name, kind="text", unit=None, meaning=meaning)


def _integer(name: str, unit: str | None, meaning: str) -> Column:
    return Column(name=name, kind="integer", unit=unit, meaning=meaning)


def _number(name: str, unit: str | None, meaning: str) -> Column:
    return Column(name=name, kind="number", unit=unit, meaning=meaning)


def _flag(name: str, meaning: str) -> Column:
    return Column(name=name, kind="flag", unit=None, meaning=meaning)


NATS = "nats per target token"
SECONDS = "s"


def _phase(name: str) -> Column:
    meaning = f"time spent {name}, up to the last change of work that the trial reported"
    return _number(f"{name}_seconds", SECONDS, meaning)


_TRIAL = _text("trial", "arm and seed: the cell's id")
_ARM = _text("arm", "name of the factor's value; baseline~repeat is none of them")
_SEED = _integer("seed", None, "governs data order, initialisation and dropout together")
_ATTEMPT = _integer("attempt", None, "execution of the cell, from 1")
_SEQUENCE = _integer("sequence", None, "place in the attempt's history, from 1")
_GRID_INDEX = _integer(
    "grid_index", None, "place on the nominal grid; 0 is before the first update"
)
_NONFINITE = _text("nonfinite", "numbers of the row that were not finite, and what they were")
_AT = _text("at", "when the trial wrote it, UTC")
_LEARNING_RATE = _number("learning_rate", None, "the arm's peak learning rate")
_READ = _integer("target_tokens_read", "target tokens", "supervised tokens read so far")
_APPLIED = _integer(
    "target_tokens_applied", "target tokens", "those of windows that ended in an update"
)

TRIALS: tuple[Column, ...] = (
    _TRIAL,
    _ARM,
    _SEED,
    _LEARNING_RATE,
    _text("status", "waiting, running, ended, or not_run because the study ended early"),
    _text("outcome", "completed, stopped, limited, lost, failed or cancelled"),
    _text("reason", "why it ended"),
    _text("detail", "the sentence behind the reason, with its numbers"),
    _number("initial_loss", NATS, "validation loss before the first update"),
    _number("first_window_loss", NATS, "training loss of the first window, before any update"),
    _number("validation_loss", NATS, "validation loss at the declared checkpoint"),
    _number("last_finite_loss", NATS, "last finite loss of a window"),
    _number("retention_initial_loss", NATS, "retention loss before the first update"),
    _number("retention_loss", NATS, "retention loss at the declared checkpoint"),
    _READ,
    _APPLIED,
    _integer("records", "records", "records read"),
    _integer("input_tokens", "tokens", "input tokens read, padding left out"),
    _integer("padding_tokens", "tokens", "padding positions that were computed"),
    _integer("windows", "windows", "windows tried"),
    _integer("updates", "updates", "updates that ran"),
    _integer("skipped", "windows", "windows that ended in no update"),
    _integer("clipped", "updates", "updates whose gradient was scaled down to the threshold"),
    _number("wall_seconds", SECONDS, "wall-clock time of all attempts, evaluation included"),
    _integer("peak_memory_bytes", "bytes", "largest sampled memory of the trial's processes"),
    _integer("attempts", None, "executions of the cell"),
    _text("adapter_path", "where the final adapter or model is, in the run folder"),
    _text("best_path", "where the weights with the lowest validation loss are, in the run folder"),
    _text("initial_digest", "SHA-256 of the initial trainable tensors"),
    _text("record_digest", "rolling SHA-256 of the records read"),
    _integer("optuna_number", None, "number of its trial in the Optuna study"),
    _text("fingerprint", "SHA-256 of what is studied"),
)

UPDATES: tuple[Column, ...] = (
    _TRIAL,
    _ARM,
    _SEED,
    _ATTEMPT,
    _SEQUENCE,
    _integer("window", None, "index of the window in the plan, from 1"),
    _integer("updates", "updates", "updates that had run, this one included"),
    _integer("first_record", None, "position in the stream of the window's first record"),
    _integer("records", "records", "records of the window"),
    _text("record_digest", "rolling SHA-256 of the records read up to and with this window"),
    _integer("target_tokens", "target tokens", "target tokens of the window"),
    _READ,
    _APPLIED,
    _integer("input_tokens", "tokens", "input tokens of the window, padding left out"),
    _integer("padding_tokens", "tokens", "padding positions that were computed"),
    _number("learning_rate", None, "rate read back from the optimizer"),
    _number("loss", NATS, "sum of token losses over the window's target tokens"),
    _number("gradient_norm", None, "global norm before clipping"),
    _flag("clipped", "whether the gradient was scaled down to the threshold"),
    _flag("ran", "whether the window ended in an update"),
    _text("skip", "why it did not"),
    _number("loss_scale", None, "by which the loss was multiplied; empty without loss scaling"),
    _number("seconds", SECONDS, "time the window took"),
    _integer("peak_memory_bytes", "bytes", "largest memory so far that the process itself reports"),
    _NONFINITE,
    _AT,
)

EVALUATIONS: tuple[Column, ...] = (
    _TRIAL,
    _ARM,
    _SEED,
    _ATTEMPT,
    _SEQUENCE,
    _text("split", "validation or retention"),
    _GRID_INDEX,
    _integer("window", None, "windows read when it was made"),
    _READ,
    _integer("updates", "updates", "updates that had run"),
    _number("loss", NATS, "sum of token losses / target tokens, over the whole split"),
    _integer("target_tokens", "target tokens", "target tokens scored"),
    _integer("records", "records", "records scored"),
    _text("set_digest", "SHA-256 of the ordered records scored"),
    _text("dtype", "precision of the forward passes"),
    _integer("micro_batch", "records", "records per forward pass"),
    _number("seconds", SECONDS, "time it took"),
    _text("per_record_path", "where the records' own losses are, in the run folder"),
    _text("per_record_sha256", "SHA-256 of that file"),
    _NONFINITE,
    _AT,
)

ATTEMPTS: tuple[Column, ...] = (
    _TRIAL,
    _ARM,
    _SEED,
    _ATTEMPT,
    _integer("fencing_number", None, "grows with every claim of the cell"),
    _text("worker", "coordinator that owned it"),
    _text("host", "host of the coordinator"),
    _integer("pid", None, "process of the coordinator"),
    _text("process_started_at", "start time of that process"),
    _text("slot", "where it ran"),
    _text("folder", "folder of the attempt"),
    _text("claimed_at", "when the cell was claimed, UTC by the database's clock"),
    _text("lease_expires_at", "until when the claim holds, UTC by the database's clock"),
    _integer("supervisor_pid", None, "process of the supervisor"),
    _text("supervisor_started_at", "start time of that process"),
    _integer("child_pid", None, "process of the trial"),
    _text("child_started_at", "start time of that process"),
    _text("initial_digest", "SHA-256 of the initial trainable tensors"),
    _integer("trainable_parameters", None, "trainable scalars"),
    _text("adapted_modules", "modules that an adapter was put on, as JSON"),
    _text("environment", "what it ran on, by field, as JSON"),
    _text("configuration", "what the trial was told, by dotted key, as JSON"),
    _integer(
        "resumed_after_window",
        None,
        "last window of the checkpoint that it went on from; 0: it began with the first window",
    ),
    _integer("resumed_from_attempt", None, "attempt that had made that checkpoint"),
    _text("resume_checkpoint", "folder of that checkpoint"),
    _text("resume_differences", "what had changed since it was made, as JSON"),
    _integer("checkpoint_window", None, "last window of the newest checkpoint that it made"),
    _text("checkpoint_path", "where that one was written, in the run folder"),
    _phase("loading"),
    _phase("training"),
    _phase("evaluating"),
    _phase("checkpointing"),
    _phase("saving"),
    _text("adapter_path", "where the final adapter or model is, in the run folder"),
    _text("adapter_sha256", "SHA-256 over its files"),
    _text("best_path", "where the weights with the lowest validation loss are, in the run folder"),
    _text("best_sha256", "SHA-256 over its files"),
    _text("evidence_path", "where the evidence of a stop is, in the run folder"),
    _text("ended_at", "when it ended, UTC by the database's clock"),
    _text("outcome", "completed, stopped, limited, lost, failed or cancelled"),
    _text("reason", "why it ended"),
    _text("detail", "the sentence behind the reason, with its numbers"),
    _text("evidence", "further facts, as JSON"),
    _integer("exit_status", None, "exit status of the child; negative: the signal"),
    _number("wall_seconds", SECONDS, "wall-clock time of the child"),
    _integer("peak_memory_bytes", "bytes", "largest sampled memory of the child's process tree"),
)


RECORD_LOSSES: tuple[Column, ...] = (
    _TRIAL,
    _ARM,
    _SEED,
    _text("split", "validation or retention"),
    _GRID_INDEX,
    _text("digest", "SHA-256 of the record"),
    _text("group", "group that the record belongs to"),
    _integer("target_tokens", "target tokens", "target tokens of the record"),
    _number("loss_sum", "nats", "sum of its token losses"),
)
"""Of each record at each evaluation; not in the database but in the files that it names."""


def trial_columns(factor_key: str, *, is_text: bool) -> tuple[Column, ...]:
    """Returns the columns of trials, that of the factor named by the factor's last key."""
    name = factor_key.rpartition(".")[2]
    if name == _LEARNING_RATE.name:
        return TRIALS
    kind: Kind = "text" if is_text else "number"
    factor = Column(name=name, kind=kind, unit=None, meaning="the arm's value of the factor")
    return tuple(factor if column is _LEARNING_RATE else column for column in TRIALS)


def dtypes_of(columns: Sequence[Column]) -> dict[str, str]:
    """Returns the type that each column has in a frame, by its name."""
    return {column.name: _DTYPES[column.kind] for column in columns}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows as plain values, None where unknown; what the columns leave out is not shown."""

    rows: Sequence[Mapping[str, object]]
    columns: Sequence[Column]

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
        return Table(rows=self.rows, columns=chosen)

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
        return pd.DataFrame(series, columns=self.names())


def _no_column(name: str, names: Sequence[str]) -> Fault:
    close = nearest(name, names)
    return Fault(
        what=f"there is no column {name}",
        expected=", ".join(names),
        hint=f"Did you mean {close}?" if close else None,
    )
