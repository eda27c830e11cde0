"""Whether a place is the same as the one that a seed began in. Pure.

Trials of a seed are compared with each other, so all of them run in the environment of the seed's
first attempt. It is compared field by field: what is known of a slot before a trial runs in it,
and all of it once the trial can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEVICE = "device"
"""The field that names the model of the GPU, or `cpu`."""
CPU = "cpu"
SOME_GPU = "a GPU"
"""Said of a slot with a GPU whose model is not known before a trial runs there."""

FOUND = "environment_found"
"""In the evidence of an attempt that was in the wrong place: the differing fields as it found them,
as JSON."""
BEGAN_WITH = "environment_of_seed"
"""Likewise: the same fields as the seed's first attempt had them, as JSON."""

NOT_SET = "not set"
"""Stands for a field that one of the two does not have."""

_MAKER = "nvidia "
"""The driver and CUDA do not agree, in every version, on whether a model's name begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which a place is not what the seed began with."""

    field: str
    began_with: str
    has: str

    def __str__(self) -> str:
        return f"{self.field} {self.has} instead of {self.began_with}"


def known_differences(
    known: Mapping[str, str], began_with: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Returns where what is known of a slot differs; fields that only one side has are left out."""
    return tuple(
        Difference(field=name, began_with=began_with[name], has=known[name])
        for name in sorted(known.keys() & began_with.keys())
        if not _fits(name, known[name], began_with[name])
    )


def all_differences(
    environment: Mapping[str, str], began_with: Mapping[str, str]
) -> tuple[Difference, ...]:
    """Returns where the environment that a trial found differs, in any field that either has."""
    return tuple(
        Difference(
            field=name,
            began_with=began_with.get(name, NOT_SET),
            has=environment.get(name, NOT_SET),
        )
        for name in sorted(environment.keys() | began_with.keys())
        if environment.get(name) != began_with.get(name)
    )


def was_misplaced(evidence: Mapping[str, str]) -> bool:
    """Says whether the evidence is that of an attempt that gave the wrong place back at once."""
    return FOUND in evidence


def fields_of_precision(precision: str) -> Mapping[str, str]:
    """Returns the fields that follow from the precision that a trial is told, as it reports them.

    The arms of a precision study differ in these within a seed, and each has to find its own.
    """
    return {
        "precision": precision,
        "loss_scaling": "yes" if precision == "float16" else "no",
    }


def _fits(field: str, known: str, began_with: str) -> bool:
    if field != DEVICE:
        return known == began_with
    if SOME_GPU in {known, began_with}:
        return CPU not in {known, began_with}
    return _model(known) == _model(began_with)


def _model(name: str) -> str:
    return name.casefold().removeprefix(_MAKER)
