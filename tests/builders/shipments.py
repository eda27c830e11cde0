"""What an export holds, made up: its card is written from this and from a study's record."""

from sweeper.study.base_model import BaseModel
from sweeper.study.spec import PlannedExposure, TrialSpec
from sweeper.training.options import (
    EvaluationOptions,
    LoraOptions,
    ModelOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions
from sweeper.trial.export.package import Exported, ExportedFile

ON_THE_HUB = BaseModel(hub_id="mice/tiny-llama", revision="ab" * 20, is_from_folder=False)
FROM_A_FOLDER = BaseModel(hub_id="mice/tiny-llama", revision=None, is_from_folder=True)
UNKNOWN = BaseModel(hub_id=None, revision=None, is_from_folder=True)

FILES = (
    ExportedFile(name="adapter_config.json", size_bytes=812, sha256="a" * 64),
    ExportedFile(name="adapter_model.safetensors", size_bytes=40960, sha256="b" * 64),
    ExportedFile(name="tokenizer.json", size_bytes=3210, sha256="c" * 64),
)


def spec(**changes):
    """What a trial of the recorded study was told, as far as a card needs it."""
    told = TrialSpec(
        study="rates",
        fingerprint="f" * 64,
        cell="half/0",
        arm="half",
        seed=0,
        attempt=1,
        prepared="/runs/rates/prepared",
        model=ModelOptions(path="/models/base"),
        tune="lora",
        lora=LoraOptions(rank=8),
        training=TrainingOptions(
            learning_rate=1e-4, schedule=ScheduleOptions(kind="constant"), records_per_update=2
        ),
        budget_target_tokens=30,
        planned=PlannedExposure(
            records=6,
            target_tokens=30,
            input_tokens=60,
            windows=3,
            last_window_target_tokens=10,
            record_digest="0" * 64,
        ),
        evaluation=EvaluationOptions(),
        stop=StopOptions(),
        micro_batch=1,
    )
    return told.model_copy(update=changes)


def exported(**changes):
    """An adapter that was evaluated after it was exported."""
    facts = {
        "base": ON_THE_HUB,
        "spec": spec(),
        "is_adapter": True,
        "merged": False,
        "validation_loss": 1.5900000001,
        "tolerance": 1e-6,
        "files": FILES,
    }
    return Exported(**facts | changes)
