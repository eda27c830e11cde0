"""How and where a study runs: recorded per attempt, never part of the fingerprint.

They steer the workers, which stand above this room; they live here because the study file
holds them and the workers read the study.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.options import Duration, NonNegative, Options, Positive, Size


class LocalLauncher(Options):
    """Child processes on this host."""

    kind: Literal["local"]


class SlurmLauncher(Options):
    """One Slurm job per attempt."""

    kind: Literal["slurm"]
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    setup: str | None = None


class RayLauncher(Options):
    """One Ray task per attempt."""

    kind: Literal["ray"]
    address: str | None = None


class DaskLauncher(Options):
    """One Dask task per attempt."""

    kind: Literal["dask"]
    address: str | None = None


Launcher = Annotated[
    LocalLauncher | SlurmLauncher | RayLauncher | DaskLauncher, Field(discriminator="kind")
]


class Limits(Options):
    """What one trial may use; raised only on record."""

    wall_clock: Duration | None = None
    host_memory: Size | None = None
    device_memory: Size | None = None
    disk: Size | None = None
    hang: Duration = "10m"


class CheckpointEvery(Options):
    """A checkpoint after so many windows."""

    windows: Positive


class CheckpointOptions(Options):
    """How often a trial can be taken up again, and how many checkpoints stay."""

    every: Duration | CheckpointEvery = "10m"
    keep: Positive = 2


class Tracker(Options):
    """An outside tracker that is told what the store records."""

    kind: Literal["tensorboard", "mlflow", "wandb"]
    uri: str | None = None
    project: str | None = None


class RunOptions(Options):
    """Slots, limits and launchers."""

    micro_batch: Positive | Literal["auto"] = "auto"
    devices_per_trial: Positive = 1
    slots: Literal["auto"] | tuple[str, ...] = "auto"
    trials_per_device: Positive = 1
    use_busy: bool = False
    quarantine_after: Positive = 3
    deterministic: bool = True
    launcher: Launcher = LocalLauncher(kind="local")
    storage: str = "sqlite"
    limits: Limits = Limits()
    deadline: Duration | None = None
    checkpoint: CheckpointOptions = CheckpointOptions()
    max_resumes: NonNegative = 3
    trackers: tuple[Tracker, ...] = ()
