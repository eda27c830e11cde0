"""Which of the coordinator's environment variables a node is given, where the engine gives none.

A list of what matters to Python, its libraries and caches. What is not on it stays at home, for
nobody knows what it holds: a job's script is kept by the engine and shown to its administrators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAMES = frozenset(
    {
        "CONDA_DEFAULT_ENV",
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_PATH",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "PATH",
        "PYTHONPATH",
        "PYTHONWARNINGS",
        "SHELL",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
        "XDG_CACHE_HOME",
    }
)
_BEGINNINGS = (
    "COVERAGE_",
    "CUBLAS_",
    "CUDA_DEVICE_",
    "CUDA_MODULE_",
    "CUDNN_",
    "GLOO_",
    "HF_",
    "LC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_TF32_",
    "OMP_",
    "PYTORCH_",
    "TORCH_",
    "TRANSFORMERS_",
    "TRITON_",
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|_KEY")


def node_environment(environ: Mapping[str, str], *, withheld: Iterable[str]) -> dict[str, str]:
    """Returns what a node is given of the coordinator's environment, by sorted name.

    Args:
        environ: The coordinator's.
        withheld: Variables that hold, or may hold, a password. A variable that repeats what one of
            them holds is left out as well.
    """
    withheld = frozenset(withheld)
    secrets = [environ[name] for name in withheld if environ.get(name)]
    return {
        name: value
        for name, value in sorted(environ.items())
        if name in _NAMES or name.startswith(_BEGINNINGS)
        if name not in withheld and not _SECRET.search(name)
        if not any(secret in value for secret in secrets)
    }
