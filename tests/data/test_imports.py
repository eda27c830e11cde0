"""What the control plane reads of this room loads neither torch nor transformers."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys
import sweeper.data.holdout, sweeper.data.identity, sweeper.data.manifest, sweeper.data.options
import sweeper.data.prepared, sweeper.data.request, sweeper.data.stream
print([name for name in ("torch", "transformers", "tokenizers") if name in sys.modules])
"""


def test_reading_prepared_data_and_planning_load_no_torch() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
