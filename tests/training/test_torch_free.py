"""What the plan reads of this room does not load torch."""

import subprocess
import sys

MODULES = ("options", "stopping", "schedule", "exposure", "grid", "watch", "window", "report")


def test_a_fresh_interpreter_imports_them_without_torch():
    """One after another in one process: the first that loads it is named."""
    lines = [
        f"import sweeper.training.{m}; assert 'torch' not in sys.modules, {m!r}" for m in MODULES
    ]
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(("import sys", *lines))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
