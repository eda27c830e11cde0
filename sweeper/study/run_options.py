"""How and where a study runs: recorded per attempt, never part of the fingerprint.

They steer the workers, which stand above this room; they live here because the study file
holds them and the workers read the study.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeper.options import Duration, NonNegative, Options, Positive, PositiveNumber, Size


class LocalLauncher(Options):
    """Child processes on this host."""

    kind: Literal["local"]


class SlurmLauncher(Options):
    """One Slurm job per attempt.

    Attributes:
        sbatch: Options of sbatch by their long names, see `sbatch`.
        setup: Shell text that the batch script runs before the trial.
        jobs: At most so many at once; None: one per cell.
    """

    kind: Literal["slurm"]
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    setup: str | None = None
    jobs: Positive | None = None


class RayLauncher(Options):
    """One Ray task per attempt.

    Attributes:
        jobs: At most so many at once; None: one per cell.
        cpus: That each takes.
        gpus: Likewise.
    """

    kind: Literal["ray"]
    address: str | None = None
    jobs: Positive | None = None
    cpus: Positive = 1
    gpus: NonNegative = 0


class DaskLauncher(Options):
    """One Dask task per attempt.

    Attributes:
        jobs: At most so many at once; None: one per cell.
        resources: That each takes, by the names that the workers were started with.
    """

    kind: Literal["dask"]
    address: str | None = None
    jobs: Positive | None = None
    resources: dict[str, PositiveNumber] = Field(default_factory=dict)


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
    """Slots, limits and launchers.

    Attributes:
        slots: `auto`: the GPUs that `CUDA_VISIBLE_DEVICES` names, else those that the driver lists,
            else the cores. Or a list of devices as that variable names them (`0`, `GPU-…`,
            `MIG-…`); `cpu` is a slot without one.
        trials_per_device: Trials that share a GPU, all at once. Each may use all of it: what one
            takes, the others lack, and running out counts as the trial's own limit; so does
            `limits.device_memory`, which is for each. A device error counts for the device.
        use_busy: Take GPUs too on which processes of others compute.
        quarantine_after: Device errors in a row with which a device is set aside for the run.
        deadline: Wall time for the whole study, since it began, by the database's clock; pauses
            between two runs count. Running trials are then stopped and stay resumable; a run with a
            later deadline goes on.
    """

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
