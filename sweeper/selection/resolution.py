"""What difference a study of this size and spread could have seen."""

from __future__ import annotations

from sweeper.selection.differences import Difference
from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.wording import plain, seeds_text


def resolution_of(study: StudyEvidence, arm: str, difference: Difference | None) -> str:
    """Returns the sentence; it is about the spread, and not power at the difference observed."""
    if difference is None or difference.resolution is None or difference.sd is None:
        return f"{arm}: not known from these trials."
    if difference.has_zero_spread:
        return f"{arm}: not known, because the seeds do not vary."
    return (
        f"{arm}: with {seeds_text(difference.n)} and differences that spread by "
        f"{plain(difference.sd)} (sd), a true difference of {difference.resolution:.2g} nats would "
        f"be found in 4 studies of 5; {plain(study.smallest_difference)} was declared to matter."
    )
