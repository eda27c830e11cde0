"""From what the ranks said, and how their processes ended, to one outcome.

Pure: values in, a value out. When one rank goes, the others lose touch with it, and it is a race
which of them is heard first; so the order of the questions is the rule:

1. A rank that says what went wrong counts first, and a death that nobody explained next.
2. That ranks lost touch is a consequence. It counts for itself only when no cause has come to light
   for a while.
3. When all have ended as they should, rank 0's word is the outcome: it saves and reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sweeper.records import Outcome, Reason
from sweeper.trial.deaths import outcome_of_signal
from sweeper.trial.ending import exit_status_of
from sweeper.trial.exit_status import ExitStatus

LOST_TOUCH = "LostTouch"
"""The error of a rank that another one left: `training.process_group.LostTouch`, whose module can
not be read here."""

PATIENCE_SECONDS = 5.0
"""For the cause of a consequence to come to light."""
LEAVE_SECONDS = 30.0
"""For processes that have said their last word to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One rank as its starter sees it.

    Attributes:
        said: Its last word; None as long as it has not come to say it.
        status: Exit status; negative for a signal; None while the process runs.
    """

    rank: int
    said: Outcome | None = None
    status: int | None = None


def outcome_of_ranks(standings: Sequence[Standing], *, quiet_seconds: float) -> Outcome | None:
    """Returns how the attempt ends, or None while that is open.

    Args:
        standings: All ranks, by rank.
        quiet_seconds: Since a rank last said or did something.
    """
    if outcome := next(_complaints(standings), None) or next(_deaths(standings), None):
        return outcome
    lost = [standing for standing in standings if _lost_touch(standing)]
    if lost:
        return _without_touch(lost[0], standings) if quiet_seconds >= PATIENCE_SECONDS else None
    if any(standing.said is None for standing in standings):
        return None
    all_left = all(standing.status is not None for standing in standings)
    return standings[0].said if all_left or quiet_seconds >= LEAVE_SECONDS else None


def _complaints(standings: Iterable[Standing]) -> Iterator[Outcome]:
    for standing in standings:
        if standing.said is not None and _is_trouble(standing.said) and not _lost_touch(standing):
            yield _of_rank(standing.rank, standing.said)


def _deaths(standings: Iterable[Standing]) -> Iterator[Outcome]:
    """Yields the ends of processes that their last words do not explain."""
    for standing in standings:
        rank, said, status = standing.rank, standing.said, standing.status
        if status is None or (said is not None and status == exit_status_of(said)):
            continue
        if status < 0:
            yield _of_rank(rank, outcome_of_signal(-status))
        elif status == ExitStatus.DISK_FULL:
            yield _of_rank(rank, Outcome(reason=Reason.DISK, detail="the disk is full"))
        else:
            word = "nothing" if said is None else said.reason
            detail = f"exited with status {status} and said {word}"
            yield _of_rank(rank, Outcome(reason=Reason.CODE_ERROR, detail=detail))


def _without_touch(lost: Standing, standings: Iterable[Standing]) -> Outcome:
    """Returns the outcome where ranks lost touch and none of them died or complained."""
    assert lost.said is not None
    left = [s for s in standings if s.said is not None and not _lost_touch(s)]
    if not left:
        return _of_rank(lost.rank, lost.said)
    assert left[0].said is not None
    detail = f"ended with {left[0].said.reason} while rank {lost.rank} went on"
    return _of_rank(left[0].rank, Outcome(reason=Reason.CODE_ERROR, detail=detail))


def _of_rank(rank: int, outcome: Outcome) -> Outcome:
    evidence = {**outcome.evidence, "rank": str(rank)}
    return replace(outcome, detail=f"rank {rank}: {outcome.detail}", evidence=evidence)


def _is_trouble(said: Outcome) -> bool:
    return exit_status_of(said) is ExitStatus.TROUBLE


def _lost_touch(standing: Standing) -> bool:
    return standing.said is not None and standing.said.evidence.get("error") == LOST_TOUCH
