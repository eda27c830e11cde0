"""What a process on this host runs on, as far as it is known without loading torch."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

LIBRARY_SWITCHES = ("CUBLAS_WORKSPACE_CONFIG", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")
"""Environment variables that choose other kernels, so other last bits."""

_TORCH_VERSION = re.compile(r"^__version__ = '([^']+)'$", re.MULTILINE)


def cpu_name() -> str:
    """Returns the processor's model; Linux tells it in /proc alone."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def switches(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns those of the library switches that are set, by the field's name."""
    return {name.lower(): environ[name] for name in LIBRARY_SWITCHES if name in environ}


def describe_host() -> Mapping[str, str]:
    """Returns what trials on this host will report, under the names that they use.

    A field that cannot be known without torch is left out.
    """
    fields = {
        "cpu": cpu_name(),
        "python": platform.python_version(),
        "torch": _torch_version(),
        "transformers": _version("transformers"),
        "peft": _version("peft"),
    }
    return {name: text for name, text in fields.items() if text is not None}


def _torch_version() -> str | None:
    """Returns what `torch.__version__` would be; the metadata of some wheels lack its `+cu128`."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).with_name("version.py")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    told = _TORCH_VERSION.search(text)
    return told[1] if told else None


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
