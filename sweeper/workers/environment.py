"""The environment variables a trial gets on top of its coordinator's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.process_tree import MARKER
from sweeper.workers.slots import Slot


def trial_environment(folder: AttemptFolder, slot: Slot) -> dict[str, str]:
    """Returns the variables that pin an attempt to its slot and make it repeatable.

    Threads that wait for work sleep instead of spinning: slots share cores. An empty
    `CUDA_VISIBLE_DEVICES` hides every GPU from a trial on a CPU slot. pyarrow, which transformers
    loads, starts no thread of its own: a process that has one cannot be forked safely. Progress
    bars are off: what a trial writes to stderr is kept as its log.
    """
    threads = str(slot.threads)
    return {
        "CUDA_VISIBLE_DEVICES": slot.device or "",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "FLASH_ATTENTION_DETERMINISTIC": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        MARKER: str(folder.path.resolve()),
    }


def without(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Returns the environment without what is not for a trial, the database's password above all.

    Whoever may look into a process sees its environment.
    """
    return {name: value for name, value in environ.items() if name not in names}
