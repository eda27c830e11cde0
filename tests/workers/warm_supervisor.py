"""A supervisor whose trials are forked from a light template: `warm_supervisor.py BEHAVIOUR`."""

from __future__ import annotations

import sys
from pathlib import Path

from sweeper.workers import supervisor, warm_start

if __name__ == "__main__":
    template = str(Path(__file__).with_name("light_template.py"))
    warm_start.TEMPLATE_COMMAND = (sys.executable, template, sys.argv[1])
    supervisor.main()
