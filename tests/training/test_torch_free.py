"""What the plan reads of this room does not load torch."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["options", "stopping", "schedule", "exposure", "grid", "watch", "window", "report"],
)
def test_a_fresh_interpreter_imports_it_without_torch(module):
    code = f"import sys, sweeper.training.{module}; sys.exit('torch' in sys.modules)"
    child = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert child.returncode == 0
