"""The launcher that a study asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from sweeper.study.run_options import DaskLauncher, RayLauncher, RunOptions, SlurmLauncher
from sweeper.study.run_options import LocalLauncher as LocalOptions
from sweeper.study.storage import variables
from sweeper.workers.launcher import Launcher
from sweeper.workers.launchers.bridge import BridgedEngine
from sweeper.workers.launchers.engine_launcher import EngineLauncher
from sweeper.workers.launchers.local import TRIAL_COMMAND, LocalLauncher
from sweeper.workers.launchers.slurm import Slurm

_log = logging.getLogger(__name__)


def launcher_for(
    run: RunOptions,
    logs: Path,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None] = _log.info,
    trial_command: tuple[str, ...] = TRIAL_COMMAND,
) -> Launcher:
    """Returns the launcher of `run.launcher`; to be closed by the caller.

    Args:
        run: The study's `run:` section.
        logs: Folder for what supervisors write for people.
        environ: The coordinator's environment. Variables that `run.storage` names stay out of jobs.
        tell: Takes what a user should know, a sentence each.
        trial_command: What runs in the folder that the launcher is given.

    Raises:
        UserError: What the launcher needs is not installed, or the cluster does not take its jobs.
    """
    options = run.launcher
    match options:
        case LocalOptions():
            withheld = variables(run.storage)
            return LocalLauncher(
                logs=logs, trial_command=trial_command, tell=tell, withheld=withheld
            )
        case SlurmLauncher():
            slurm = Slurm(options, environ=environ, withheld=variables(run.storage))
            slurm.refuse_if_slurm_would()
            return EngineLauncher(slurm, trial_command=trial_command)
        case RayLauncher() | DaskLauncher():
            withheld = variables(run.storage)
            seen = {name: value for name, value in environ.items() if name not in withheld}
            log = logs / f"{options.kind}.log"
            engine = BridgedEngine(options, environ=seen, log=log)
            return EngineLauncher(engine, trial_command=trial_command)
