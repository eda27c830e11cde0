"""What a well-formed study should be warned of before it costs anything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sweeper.study.arms import ArmPlan
from sweeper.study.exposure import ExposurePlan, records_per_update
from sweeper.study.schema import Study


def warnings_of(
    study: Study, arms: Sequence[ArmPlan], exposures: Sequence[ExposurePlan]
) -> tuple[str, ...]:
    """Returns the warnings as sentences."""
    return (
        *_unfinished_warmup(exposures),
        *_unequal_decay(arms),
        *_divergence_out_of_reach(study, exposures),
        *_idle_ranks(study, arms),
        *_float16_on_a_processor(study, arms),
    )


def _unfinished_warmup(exposures: Sequence[ExposurePlan]) -> Iterator[str]:
    """A schedule that only rises has its peak at the last update or never."""
    unfinished = [exposure for exposure in exposures if exposure.warmup_share >= 1]
    if not unfinished:
        return
    seeds = ", ".join(dict.fromkeys(str(exposure.seed) for exposure in unfinished))
    first = unfinished[0]
    end = first.planned.windows if first.counter == "updates" else first.planned.target_tokens
    reached = (
        "is reached only with the last update" if first.warmup_share == 1 else "is never reached"
    )
    yield (
        f"Warm-up does not end within the budget: it takes {first.warmup} {_words(first.counter)}"
        f" of {end} (seeds: {seeds}). The peak rate {reached}, so the arms"
        " differ by less than their names say."
    )


def _unequal_decay(arms: Sequence[ArmPlan]) -> Iterator[str]:
    """Both AdamW and SGD take the rate times the decay off each weight."""
    if len({arm.lr_x_weight_decay for arm in arms}) == 1:
        return
    products = ", ".join(f"{arm.name} {arm.lr_x_weight_decay:g}" for arm in arms)
    yield (
        f"lr x weight_decay differs between the arms ({products}): they change the decay along"
        " with the rate. `training.optimizer.weight_decay: 0` would leave the rate alone."
    )


def _divergence_out_of_reach(study: Study, exposures: Sequence[ExposurePlan]) -> Iterator[str]:
    needed = study.stop.diverged.evaluations
    made = min(exposure.evaluations - 1 for exposure in exposures)
    if made < needed:
        yield (
            f"stop.diverged cannot fire: it asks for {needed} evaluations in a row, and only {made}"
            " are made after the first update. Set evaluation.every, or lower"
            " stop.diverged.evaluations."
        )


def _idle_ranks(study: Study, arms: Sequence[ArmPlan]) -> Iterator[str]:
    """A rank without a micro-batch waits for the others, which changes no number."""
    records, micro_batch = (
        min(records_per_update(study, arm) for arm in arms),
        study.run.micro_batch,
    )
    ranks = study.run.devices_per_trial
    if micro_batch == "auto":
        return
    micro_batches = math.ceil(records / micro_batch)
    if micro_batches < ranks:
        yield (
            f"run.devices_per_trial: {ranks} is more than the {micro_batches} micro-batches of a"
            f" window ({records} records, {micro_batch} at a time): the other"
            f" {ranks - micro_batches} devices of each trial have nothing to do."
        )


def _float16_on_a_processor(study: Study, arms: Sequence[ArmPlan]) -> Iterator[str]:
    """The trial refuses it; that is late for a study whose other arms have run by then."""
    named = [arm.name for arm in arms if arm.precision == "float16"]
    if study.training.precision == "float16" and not named:
        named = [arm.name for arm in arms]
    if named and study.run.slots != "auto" and "cpu" in study.run.slots:
        yield (
            f"float16 is for GPUs, and run.slots has `cpu`: there the trials of"
            f" {', '.join(named)} are refused and end as failed."
        )


def _words(counter: str) -> str:
    return counter.replace("_", " ")
