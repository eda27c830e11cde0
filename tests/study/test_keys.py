"""The schema's keys are those of the contract, each with its documented default."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.study.keys import schema_keys
from sweeper.study.loading import load_study

EXAMPLE = Path(__file__).parent / "example_study.yaml"

MENTIONED_IN_COMMENTS = {
    "compare.values",
    "baseline",
    "baseline.from",
    "budget.epochs",
    "lora.dora",
    "lora.rslora",
    "lora.rank_pattern",
    "lora.alpha_pattern",
    "lora.modules_to_save",
    "data.source",
    "data.split",
    "data.split.validation",
    "data.split.test",
    "data.split.group",
    "data.packing.row_tokens",
    "training.schedule.warmup.updates",
    "training.schedule.warmup.target_tokens",
    "training.optimizer.momentum",
    "run.launcher.sbatch",
    "run.launcher.setup",
    "run.launcher.address",
    "run.launcher.jobs",
    "run.launcher.cpus",
    "run.launcher.gpus",
    "run.launcher.resources",
    "run.checkpoint.every.windows",
    "run.trackers.kind",
    "run.trackers.uri",
    "run.trackers.project",
}
PLACES_OF_RECORDS = {"path", "hub", "config", "split", "revision", "sha256", "fields", "messages"}


def test_the_schema_has_the_keys_of_the_example_and_no_others() -> None:
    given = {key for key in load_study(EXAMPLE).given if "[" not in key}
    arms = {"compare.multiply.half", "compare.multiply.baseline", "compare.multiply.double"}
    keys = {key.path for key in schema_keys()}

    left_over = {
        key
        for key in keys - given - MENTIONED_IN_COMMENTS
        if not (key.startswith("data.") and key.rpartition(".")[2] in PLACES_OF_RECORDS)
        and not key.startswith(("data.fields.", "data.retention.fields."))
    }

    assert given - arms <= keys
    assert left_over == set()


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("model.revision", "main"),
        ("model.dtype", "auto"),
        ("model.attention", "auto"),
        ("model.quantization", None),
        ("model.trust_remote_code", False),
        ("lora.rank", 16),
        ("lora.alpha", 32),
        ("lora.dropout", 0.0),
        ("lora.targets", "all-linear"),
        ("data.format", "auto"),
        ("data.supervise", "answer"),
        ("data.chat_template", None),
        ("data.template_arguments", {}),
        ("data.overlong", "drop"),
        ("data.duplicates", "refuse"),
        ("data.packing", None),
        ("data.max_epochs", 1),
        ("training.schedule.warmup", None),
        ("training.schedule.counter", "updates"),
        ("training.schedule.final", 0.0),
        (
            "training.optimizer",
            {"kind": "adamw", "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0},
        ),
        ("training.clip_norm", 1.0),
        ("training.precision", "auto"),
        ("training.gradient_checkpointing", False),
        ("training.tf32", False),
        ("evaluation.every", None),
        ("evaluation.max_records", None),
        ("stop.nonfinite", {"loss": 1, "gradient": 1}),
        ("stop.no_updates.windows", 20),
        ("stop.stalled.updates", 50),
        ("stop.diverged", {"nats_above_initial": 1.0, "evaluations": 2}),
        ("stop.study", "baseline_failed"),
        ("selection.checkpoint", "last"),
        ("selection.smallest_difference", 0.005),
        ("selection.retention_margin", 0.02),
        ("selection.extensions", 0),
        ("selection.target_loss", "worst_baseline"),
        ("selection.precision_tolerance", 0.01),
        ("selection.noise_floor", False),
        ("run.micro_batch", "auto"),
        ("run.devices_per_trial", 1),
        ("run.slots", "auto"),
        ("run.trials_per_device", 1),
        ("run.use_busy", False),
        ("run.quarantine_after", 3),
        ("run.deterministic", True),
        ("run.launcher", {"kind": "local"}),
        ("run.storage", "sqlite"),
        (
            "run.limits",
            {
                "wall_clock": None,
                "host_memory": None,
                "device_memory": None,
                "disk": None,
                "hang": "10m",
            },
        ),
        ("run.deadline", None),
        ("run.checkpoint", {"every": "10m", "keep": 2}),
        ("run.max_resumes", 3),
        ("run.trackers", []),
    ],
)
def test_a_default_is_the_documented_one(path, default) -> None:
    assert [key.default for key in schema_keys() if key.path == path] == [default]


@pytest.mark.parametrize(
    "path",
    [
        "name",
        "question",
        "question.kind",
        "justification",
        "compare",
        "compare.key",
        "seeds",
        "budget",
        "model",
        "model.path",
        "tune",
        "data",
        "data.max_length",
        "training",
        "training.schedule",
        "training.schedule.kind",
        "training.records_per_update",
    ],
)
def test_a_key_documented_as_required_is_required(path) -> None:
    assert [key.required for key in schema_keys() if key.path == path] == [True]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tune", "one of lora, full"),
        ("lora.rank", "a whole number above 0"),
        ("lora.dropout", "a number of at least 0 and below 1"),
        ("lora.targets", "text or a list, each entry text"),
        ("lora.rank_pattern", "a mapping, each value a whole number above 0"),
        (
            "data.template_arguments",
            "a mapping, each value text or a whole number or a number or true or false",
        ),
        ("budget", "a mapping with the keys target_tokens, epochs"),
        ("training.learning_rate", "a number above 0 and of at most 1"),
        ("selection.target_loss", "worst_baseline or a number above 0"),
        ("run.use_busy", "true or false"),
        ("run.deadline", "a duration above zero with its unit: 90s, 10m, 2h or 1d"),
        ("run.limits.disk", "a size above zero with its unit: 512MiB or 16GiB"),
    ],
)
def test_what_a_key_holds_is_said_in_words(path, expected) -> None:
    assert [key.expected for key in schema_keys() if key.path == path] == [expected]


def test_keys_of_variants_are_told_apart() -> None:
    decays = [key.variant for key in schema_keys() if key.name == "weight_decay"]

    assert decays == ["adamw", "sgd"]
