"""Which options of sbatch a study may set: those that say where and how long, not what a job is."""

from __future__ import annotations

import re

EXPECTED = "an option of sbatch by its long name, such as partition, gres, time or cpus_per_task"

_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_OURS = frozenset(
    {
        "array",
        "chdir",
        "cluster",
        "clusters",
        "error",
        "export",
        "export-file",
        "get-user-env",
        "gid",
        "help",
        "ignore-pbs",
        "input",
        "job-name",
        "no-requeue",
        "open-mode",
        "output",
        "parsable",
        "requeue",
        "signal",
        "test-only",
        "uid",
        "usage",
        "version",
        "wait",
        "workdir",
        "wrap",
    }
)
"""What sweeper sets itself, or what would keep it from following its job."""


def option_name(name: str) -> str:
    """Returns the option's name as sbatch writes it; a study file may use underscores."""
    return name.replace("_", "-")


def fault_in_option(name: str, value: str | int | bool) -> str | None:
    """Returns what is wrong with an option as a sentence, or None if nothing is.

    sbatch takes the beginning of a name for the whole, so the beginnings of ours are ours too.
    """
    option = option_name(name)
    if not _NAME.fullmatch(name):
        return "not the long name of an option of sbatch"
    if option in _OURS:
        return "sweeper sets this option of sbatch itself"
    if whole := sorted(ours for ours in _OURS if ours.startswith(option)):
        return f"sbatch would read this as {whole[0]}, which sweeper sets itself"
    if isinstance(value, str) and (not value or not value.isprintable()):
        return "not a value for an option of sbatch"
    return None


def option_argument(name: str, value: str | int | bool) -> str | None:
    """Returns the option as an argument of sbatch; None for one that is switched off."""
    option = f"--{option_name(name)}"
    if isinstance(value, bool):
        return option if value else None
    return f"{option}={value}"
