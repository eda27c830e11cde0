"""What a trial's processes write for people. Torch-free."""

from __future__ import annotations

import logging
import sys

from sweeper.study.spec import TrialSpec


def configure_logging(spec: TrialSpec, *, rank: int | None = None) -> None:
    """Sends the log to standard error, every line with its place.

    Args:
        rank: Of this process, where there are several.
    """
    place = f"{spec.study} {spec.cell} attempt {spec.attempt}"
    if rank is not None:
        place += f" rank {rank}"
    form = f"%(asctime)s {place} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
