"""Openings of a test split as values."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, OpenedLoss

FROZEN = "f" * 64


def losses(
    role: Role, arm: str | None, validation: Sequence[float], test: Sequence[float | None]
) -> tuple[OpenedLoss, ...]:
    """The losses of one role, seed by seed."""
    pairs = zip(validation, test, strict=True)
    return tuple(
        OpenedLoss(
            role=role,
            arm=arm,
            seed=seed,
            validation_loss=on_validation,
            test_loss=on_test,
            per_record_path=f"losses/{role}-{seed}.parquet",
            per_record_sha256="0" * 64,
        )
        for seed, (on_validation, on_test) in enumerate(pairs)
    )


def opened(*given: tuple[OpenedLoss, ...], chosen: str = "half", **fields: object) -> Opened:
    """An opening of 120 records with these losses."""
    facts: dict[str, object] = {
        "opening": 1,
        "frozen": FROZEN,
        "records_digest": "a" * 64,
        "records_read": 120,
        "records": 120,
        "target_tokens": 5000,
        "set_digest": "b" * 64,
        "overlaps": (),
    }
    return Opened(
        chosen=chosen,
        losses=tuple(loss for each in given for loss in each),
        **(facts | fields),  # type: ignore[arg-type]
    )


def of_means(
    init: tuple[float, float], base: tuple[float, float], half: tuple[float, float]
) -> Opened:
    """One seed per role, each given as validation and test loss."""
    return opened(
        losses(Role.CHOSEN, "half", half[:1], half[1:]),
        losses(Role.BASELINE, "baseline", base[:1], base[1:]),
        losses(Role.INITIAL, None, init[:1], init[1:]),
    )


VALIDATION = {
    "half": [1.590, 1.589, 1.596, 1.597, 1.585],
    "baseline": [1.602, 1.598, 1.611, 1.605, 1.594],
}
"""The losses of the worked case T01: half - baseline is -0.0106 on average."""


def with_test_differences(
    differences: Sequence[float], *, seeds: int = 5, **fields: object
) -> Opened:
    """The five seeds of T01; on the test split, half differs from the baseline by these."""
    base = [loss + 0.02 for loss in VALIDATION["baseline"][:seeds]]
    half = [loss + difference for loss, difference in zip(base, differences, strict=True)]
    return opened(
        losses(Role.CHOSEN, "half", VALIDATION["half"][:seeds], half),
        losses(Role.BASELINE, "baseline", VALIDATION["baseline"][:seeds], base),
        losses(Role.INITIAL, None, [2.1] * seeds, [2.12] * seeds),
        **fields,
    )
