"""What is known of this host without torch, against what a trial reports."""

import subprocess
import sys

from sweeper.training.environment import describe_environment
from sweeper.training.host import describe_host


def test_every_field_is_told_as_a_trial_tells_it(build):
    told = describe_environment(build.tiny_llama(), build.training_options(), micro_batch=4)

    known = describe_host()

    assert set(known) == {"cpu", "python", "torch", "transformers", "peft"}
    assert known == {name: told[name] for name in known}


def test_nothing_of_torch_is_loaded_for_it():
    code = (
        "import sys; from sweeper.training.host import describe_host; describe_host(); "
        "sys.exit(bool({'torch', 'transformers', 'peft'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
