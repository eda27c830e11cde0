"""A template that loads nothing: `light_template.py BEHAVIOUR SPEC`; see `child.py`, warm.py."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import child

from sweeper.trial import warm
from sweeper.trial.events import EventLog

LOADING = {
    "is_unfit": lambda: "loading its libraries left 2 threads",
    "dies_while_loading": lambda: sys.exit(5),
    "never_loads": lambda: time.sleep(child.FOREVER),
}
FORKING = {
    "dies_when_it_is_asked": lambda *_: sys.exit(6),
    "cannot_fork": lambda *_: warm._packet({"error": "[Errno 11] no more processes"}),
}


def main() -> int:
    behaviour, spec = sys.argv[1:]
    warm._load = lambda _file: LOADING.get(behaviour, lambda: None)()
    warm._fork = FORKING.get(behaviour, warm._fork)
    warm.trial.main = lambda arguments: getattr(child, behaviour)(
        EventLog(Path(arguments[0]) / "events.jsonl")
    )
    return warm.main([spec])


if __name__ == "__main__":
    sys.exit(main())
