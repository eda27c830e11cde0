"""The noise floor: by how much two runs of the same baseline with the same seed differ.

The repeat is the same trial once more, so whatever differs at its end is neither the arm's nor the
seed's doing. A mean difference between arms below the floor is not claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.gates import (
    Pairing,
    environment,
    evaluation_set,
    initial_tensors,
    record_order,
    same_configuration,
    target_tokens_read,
)
from sweeper.selection.wording import ended_with_blame, listing, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What the repeat of the baseline showed.

    Attributes:
        seed: Of both runs.
        nats: Absolute difference of their validation losses at the declared checkpoint, per target
            token; None when it was not measured.
        baseline_loss: Validation loss of the first run; None without an endpoint.
        repeat_loss: The repeat's.
        windows_compared: Windows that both tried.
        first_differing_window: The first of those whose loss differs, from 1; None without one.
        weights_agree: Whether the final weights have the same digest; None when one is unknown.
        bit_equal: Whether losses and weights agree to the last bit; None when not measured.
    """

    seed: int
    nats: float | None
    baseline_loss: float | None
    repeat_loss: float | None
    windows_compared: int
    first_differing_window: int | None
    weights_agree: bool | None
    bit_equal: bool | None
    sentence: str


def noise_floor(study: StudyEvidence) -> NoiseFloor | None:
    """Returns what the repeat showed; None where the study asks for none."""
    if study.repeat is None:
        return None
    first, repeat = study.cell(BASELINE, study.repeat.seed), study.repeat
    windows = list(zip(first.window_losses, repeat.window_losses, strict=False))
    differing = [number for number, (a, b) in enumerate(windows, start=1) if a != b]
    obstacle = _obstacle(study, first, repeat)
    found = NoiseFloor(
        seed=repeat.seed,
        nats=_distance(first, repeat) if obstacle is None else None,
        baseline_loss=first.endpoint,
        repeat_loss=repeat.endpoint,
        windows_compared=len(windows),
        first_differing_window=differing[0] if differing else None,
        weights_agree=_agree(first.weights_digest, repeat.weights_digest),
        bit_equal=None,
        sentence=f"The noise floor is not measured: {obstacle}.",
    )
    return found if found.nats is None else _measured(study, found)


def floor_nats(study: StudyEvidence) -> float:
    """Returns the floor that differences are held against: 0 where none was measured."""
    found = noise_floor(study)
    return 0.0 if found is None or found.nats is None else found.nats


def _obstacle(study: StudyEvidence, first: CellEvidence, repeat: CellEvidence) -> str | None:
    """Returns why the two runs show no floor; None when they do."""
    if first.is_missing:
        return f"{BASELINE} with seed {first.seed} {_ended(first)}"
    if repeat.is_missing:
        return f"the repeat {_ended(repeat)}"
    if first.is_stopped and repeat.is_stopped:
        return f"both runs were stopped; the first {_ended(first)}, the repeat {_ended(repeat)}"
    difference = _first_break(Pairing(study=study, cell=repeat, baseline=first))
    if difference is not None:
        return f"the repeat is not the same run once more: {difference}"
    if first.is_stopped or repeat.is_stopped:
        return (
            f"two runs of {BASELINE} with seed {first.seed} do not even end alike: the first "
            f"{_ended(first)}, the repeat {_ended(repeat)}"
        )
    return None


def _ended(cell: CellEvidence) -> str:
    return ended_with_blame(cell.ending, cell.detail)


_SAME_RUN: tuple[Callable[[Pairing], str | None], ...] = (
    same_configuration,
    initial_tensors,
    record_order,
    evaluation_set,
    environment,
    target_tokens_read,
)
"""What must be equal for a repeat. Losses are left out: they are what is measured."""


def _first_break(pairing: Pairing) -> str | None:
    return next((found for check in _SAME_RUN if (found := check(pairing)) is not None), None)


def _distance(first: CellEvidence, repeat: CellEvidence) -> float:
    assert first.endpoint is not None
    assert repeat.endpoint is not None
    return abs(repeat.endpoint - first.endpoint)


def _agree(mine: str | None, theirs: str | None) -> bool | None:
    return None if mine is None or theirs is None else mine == theirs


def _measured(study: StudyEvidence, found: NoiseFloor) -> NoiseFloor:
    differences = tuple(_differences(found))
    bit_equal = found.nats == 0 and not differences
    return replace(
        found,
        bit_equal=bit_equal,
        sentence=_sentence(study, found, differences, bit_equal=bit_equal),
    )


def _differences(found: NoiseFloor) -> Iterator[str]:
    """Yields what is not known to agree, apart from the validation loss."""
    if found.first_differing_window is not None:
        yield f"their training losses differ from window {found.first_differing_window} on"
    elif found.windows_compared == 0:
        yield "their training losses were not recorded"
    if found.weights_agree is None:
        yield "the digests of their final weights were not recorded"
    elif not found.weights_agree:
        yield "their final weights differ"


def _sentence(
    study: StudyEvidence, found: NoiseFloor, differences: Sequence[str], *, bit_equal: bool
) -> str:
    runs = f"two runs of {BASELINE} with seed {found.seed}"
    assert found.nats is not None
    if bit_equal:
        return (
            f"The noise floor is 0: {runs} agree to the last bit, in the loss of each of "
            f"{found.windows_compared} windows, in the validation loss and in the final weights."
        )
    if found.nats == 0:
        return (
            f"The noise floor is 0: {runs} end at the same validation loss. They are not shown to "
            f"agree to the last bit: {listing(differences)}."
        )
    return (
        f"The noise floor is {plain(found.nats)} nats per target token: {runs} end that far apart"
        f"{_in_brackets(differences)}. A smaller mean difference between arms is not claimed."
        f"{_beside_the_margin(study, found.nats)}"
    )


def _in_brackets(differences: Sequence[str]) -> str:
    return f" ({listing(differences)})" if differences else ""


def _beside_the_margin(study: StudyEvidence, nats: float) -> str:
    delta = study.smallest_difference
    if nats < delta:
        return ""
    return f" It is not below the {plain(delta)} declared to matter."
