"""An attempt as one of its ranks carries it out: joined to the others; only rank 0 reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from sweeper.records import Outcome, Phase, Record
from sweeper.study.spec import TrialSpec
from sweeper.training.phases import Phases
from sweeper.training.process_group import joined
from sweeper.trial.attempt import carry_out
from sweeper.trial.device import given_device
from sweeper.trial.folder import AttemptFolder


def carry_out_as_rank(
    spec: TrialSpec,
    folder: AttemptFolder,
    rank: int,
    *,
    tell: Callable[[Record], None],
    interrupted: Callable[[], bool],
) -> Outcome:
    """Carries out the attempt together with the other ranks; returns how it ended, and tells it.

    It is told while all are still joined: what happens in parting is no part of the attempt.

    Args:
        tell: Takes every record on rank 0, the outcome alone on the others.

    Raises:
        LostTouch: Another rank is gone, or did not come.
        Exception: What `attempt.carry_out` raises.
    """
    emit = tell if rank == 0 else _say_nothing
    phases = Phases(emit, time.monotonic)
    phases.begin(Phase.LOADING)
    device = given_device(os.environ, rank=rank, ranks=spec.ranks)
    with joined(folder.meeting, rank=rank, count=spec.ranks, device=device) as ranks:
        outcome = carry_out(
            spec,
            folder,
            emit=emit,
            interrupted=interrupted,
            clock=time.monotonic,
            phases=phases,
            ranks=ranks,
        )
        phases.begin(Phase.ENDING)
        tell(outcome)
    return outcome


def _say_nothing(_record: Record) -> None:
    """Takes the records of the ranks that do not report."""
