"""The tables. A cell's id (`arm/seed`) is the key of everything; attempts count from 1 in it.

Times are UTC text by the database's clock, numbers that are not finite are NULL and named in
`nonfinite` beside them, JSON is canonical text.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

SCHEMA = Table(
    "sweeper_schema",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
)

STUDY = Table(
    "sweeper_study",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("protocol", Text, nullable=False),
    Column("study_yaml", Text, nullable=False),
    Column("factor_key", Text, nullable=False),
    Column("arms", Text, nullable=False),
    Column("seeds", Text, nullable=False),
    Column("budget_target_tokens", BigInteger, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("ended_why", Text),
    Column("ended_at", Text),
)

CELL = Table(
    "sweeper_cell",
    METADATA,
    Column("cell", Text, primary_key=True),
    Column("position", Integer, nullable=False, unique=True),
    Column("arm", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("round", Integer, nullable=False, default=0),
    Column("value_number", Double),
    Column("value_text", Text),
    Column("status", Text, nullable=False),
    Column("owner", Integer),
    Column("attempts", Integer, nullable=False),
    Column("fencing_number", Integer, nullable=False),
    Column("outcome", Text),
    Column("reason", Text),
    Column("detail", Text),
    Column("optuna_number", Integer),
    UniqueConstraint("arm", "seed"),
    CheckConstraint("(value_number IS NULL) <> (value_text IS NULL)"),
    CheckConstraint("status IN ('waiting', 'running', 'ended', 'not_run')"),
    CheckConstraint("(status = 'running') = (owner IS NOT NULL)"),
    CheckConstraint("(status = 'ended') = (outcome IS NOT NULL)"),
    CheckConstraint("owner IS NULL OR owner = attempts"),
)
"""`owner` is the number of the attempt that owns the cell; NULL when nobody does.

`round` is 0 for a cell of the study file, and the number of its round for one that was added.
"""

ATTEMPT = Table(
    "sweeper_attempt",
    METADATA,
    Column("cell", Text, ForeignKey(CELL.c.cell), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fencing_number", Integer, nullable=False),
    Column("worker", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started_at", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("claimed_at", Text, nullable=False),
    Column("lease_expires_at", Text, nullable=False),
    Column("token", Text),
    Column("supervisor_pid", Integer),
    Column("supervisor_started_at", Text),
    Column("child_pid", Integer),
    Column("child_started_at", Text),
    Column("last_sequence", Integer, nullable=False),
    Column("initial_digest", Text),
    Column("trainable_parameters", BigInteger),
    Column("adapted_modules", Text),
    Column("environment", Text),
    Column("configuration", Text),
    Column("resumed_after_window", Integer),
    Column("resumed_from_attempt", Integer),
    Column("resume_checkpoint", Text),
    Column("resume_differences", Text),
    Column("checkpoint_window", Integer),
    Column("checkpoint_path", Text),
    Column("loading_seconds", Double),
    Column("training_seconds", Double),
    Column("evaluating_seconds", Double),
    Column("checkpointing_seconds", Double),
    Column("saving_seconds", Double),
    Column("adapter_path", Text),
    Column("adapter_sha256", Text),
    Column("best_path", Text),
    Column("best_sha256", Text),
    Column("evidence_path", Text),
    Column("ended_at", Text),
    Column("outcome", Text),
    Column("reason", Text),
    Column("detail", Text),
    Column("evidence", Text),
    Column("exit_status", Integer),
    Column("wall_seconds", Double),
    Column("peak_memory_bytes", BigInteger),
    PrimaryKeyConstraint("cell", "attempt"),
    UniqueConstraint("cell", "fencing_number"),
    CheckConstraint("(ended_at IS NULL) = (outcome IS NULL)"),
    CheckConstraint("resumed_from_attempt IS NULL OR resumed_from_attempt < attempt"),
)
"""`token` is that of the call that claimed the cell, by which it is found if the answer was lost.

`resumed_after_window` is the last window of the checkpoint that was gone on from, 0 for an
attempt that began with the first window, NULL as long as it is not known which of the two it is;
`resumed_from_attempt` is the attempt that had made that checkpoint.
"""

LATE_RESULT = Table(
    "sweeper_late_result",
    METADATA,
    Column("cell", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("exit_status", Integer),
    Column("wall_seconds", Double),
    Column("peak_memory_bytes", BigInteger),
    Column("recorded_at", Text, nullable=False),
    PrimaryKeyConstraint("cell", "attempt", "reason"),
    ForeignKeyConstraint(["cell", "attempt"], [ATTEMPT.c.cell, ATTEMPT.c.attempt]),
)
"""Results that came after the cell was taken from their attempt: kept, never counted."""

SLOT = Table(
    "sweeper_slot",
    METADATA,
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started_at", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("environment", Text, nullable=False),
    PrimaryKeyConstraint("host", "pid", "process_started_at", "slot"),
)
"""The slots of those who run the study, or last ran it, and what is known of them, as JSON."""

INTERVENTION = Table(
    "sweeper_intervention",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("cell", Text, ForeignKey(CELL.c.cell)),
    Column("after_attempt", Integer),
    Column("from_the_start", Boolean, nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", Text, nullable=False),
    CheckConstraint("kind IN ('retry', 'amend', 'cancel', 'close', 'clean', 'attach')"),
    CheckConstraint("(cell IS NULL) = (after_attempt IS NULL)"),
)
"""What users changed by hand, in the order they did; `detail` is what stood there before, as JSON.

`after_attempt` is the number of attempts that the cell had by then, and `from_the_start` says that
later ones take nothing over from these.
"""

METRIC = Table(
    "sweeper_metric",
    METADATA,
    Column("cell", Text, ForeignKey(CELL.c.cell), nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("source", Text, nullable=False),
    Column("source_sha256", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("cell", "name"),
)
"""Metrics of their own that users attached to trials: shown, and never selected on."""

CHAIN = Table(
    "sweeper_chain",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("entry", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("at", Text, nullable=False),
)
"""What happened, each entry sealed by a digest over all before it, see `selection.chain`."""


def _of_attempt(name: str, *columns: Column[object]) -> Table:
    """Returns a table of facts that an attempt reported, by sequence number."""
    return Table(
        name,
        METADATA,
        Column("cell", Text, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("sequence", Integer, nullable=False),
        Column("at", Text, nullable=False),
        *columns,
        PrimaryKeyConstraint("cell", "attempt", "sequence"),
        ForeignKeyConstraint(["cell", "attempt"], [ATTEMPT.c.cell, ATTEMPT.c.attempt]),
    )


UPDATE = _of_attempt(
    "sweeper_update",
    Column("window", Integer, nullable=False),
    Column("updates", Integer, nullable=False),
    Column("first_record", BigInteger, nullable=False),
    Column("records", Integer, nullable=False),
    Column("record_digest", Text, nullable=False),
    Column("target_tokens", BigInteger, nullable=False),
    Column("target_tokens_read", BigInteger, nullable=False),
    Column("target_tokens_applied", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("padding_tokens", BigInteger, nullable=False),
    Column("learning_rate", Double),
    Column("loss", Double),
    Column("gradient_norm", Double),
    Column("clipped", Boolean, nullable=False),
    Column("ran", Boolean, nullable=False),
    Column("skip", Text),
    Column("loss_scale", Double),
    Column("seconds", Double, nullable=False),
    Column("peak_memory_bytes", BigInteger, nullable=False),
    Column("nonfinite", Text),
)
Index("sweeper_update_by_window", UPDATE.c.cell, UPDATE.c.window)

EVALUATION = _of_attempt(
    "sweeper_evaluation",
    Column("split", Text, nullable=False),
    Column("grid_index", Integer, nullable=False),
    Column("window", Integer, nullable=False),
    Column("target_tokens_read", BigInteger, nullable=False),
    Column("updates", Integer, nullable=False),
    Column("loss", Double),
    Column("target_tokens", BigInteger, nullable=False),
    Column("records", Integer, nullable=False),
    Column("set_digest", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("micro_batch", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("per_record_path", Text),
    Column("per_record_sha256", Text),
    Column("nonfinite", Text),
)
"""`grid_index` is the evaluation's `index`, a word that SQL keeps for itself."""

NOTE = _of_attempt(
    "sweeper_note",
    Column("kind", Text, nullable=False),
    Column("line", Text, nullable=False),
)
"""Every other fact, as the line it travelled in."""
