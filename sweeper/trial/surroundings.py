"""Whether an attempt may run where it finds itself. No torch.

The slots of this host are compared before an attempt starts. What they cannot tell, and all that
an engine chooses, only the attempt itself knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sweeper.records import Outcome, Reason
from sweeper.study.same_environment import (
    BEGAN_WITH,
    DEVICE,
    FOUND,
    Difference,
    all_differences,
    was_misplaced,
)


def other_device(name: str, began_with: Mapping[str, str] | None) -> Outcome | None:
    """Returns the end of an attempt on another device than its seed began on, else None.

    It is asked before anything is loaded: a checkpoint of another device would not fit either.
    """
    if began_with is None or began_with.get(DEVICE, name) == name:
        return None
    return _given_back([Difference(field=DEVICE, began_with=began_with[DEVICE], has=name)])


def other_environment(
    environment: Mapping[str, str], began_with: Mapping[str, str] | None
) -> Outcome | None:
    """Returns the end of an attempt that is not where its seed began, else None.

    Args:
        environment: What the attempt runs on.
        began_with: What the seed's first attempt ran on; None: it may run anywhere.
    """
    differences = () if began_with is None else all_differences(environment, began_with)
    return _given_back(differences) if differences else None


def found_in(outcome: Outcome) -> Mapping[str, str]:
    """Returns the fields that such an attempt found to be others; nothing for any other end."""
    return {str(k): str(v) for k, v in json.loads(outcome.evidence.get(FOUND, "{}")).items()}


def why_given_back(attempt: int, evidence: Mapping[str, str]) -> str | None:
    """Returns, as a sentence, why a cell waits after such an attempt; None after any other.

    Args:
        evidence: Of the attempt's end.
    """
    if not was_misplaced(evidence):
        return None
    began, has = (_told(evidence.get(name, "{}")) for name in (BEGAN_WITH, FOUND))
    return f"its seed began on {began}; attempt {attempt} was given a place with {has}"


def _told(fields: str) -> str:
    return ", ".join(f"{field} {value}" for field, value in sorted(json.loads(fields).items()))


def _given_back(differences: Iterable[Difference]) -> Outcome:
    """Returns the outcome of an attempt that gives its place back before it has done anything.

    Of the reasons for which a trial is lost, a preemption is nearest to the truth: it ended in
    order, was told to go elsewhere, and neither its device nor its worker is at fault; a device
    error would count against the slot, which other seeds may be right in. It is not counted among
    the losses after which a cell ends, see `store.status`.
    """
    told = list(differences)
    return Outcome(
        reason=Reason.PREEMPTED,
        detail="not where its seed began, so it goes on elsewhere: " + "; ".join(map(str, told)),
        evidence={
            FOUND: json.dumps({each.field: each.has for each in told}),
            BEGAN_WITH: json.dumps({each.field: each.began_with for each in told}),
        },
    )
