"""How much of a difference between precisions is arithmetic, and not training.

Every arm is evaluated in its own precision, so its losses hold what that precision does to an
evaluation. Before the first update the arms of a seed have the same weights: what their losses
differ by then is that part alone.
"""

from __future__ import annotations

from sweeper.selection.evidence import BASELINE, StudyEvidence, StudyKind
from sweeper.selection.statistics import mean
from sweeper.selection.wording import plain, seeds_text


def arithmetic_alone(study: StudyEvidence, arm: str) -> str | None:
    """Returns what the arm's losses differ by before training, as a sentence.

    None for other factors, and where no seed has both losses.
    """
    if study.kind is not StudyKind.PRECISION:
        return None
    differences = [
        mine.initial_loss - theirs.initial_loss
        for mine, theirs in zip(study.cells_of(arm), study.cells_of(BASELINE), strict=True)
        if mine.initial_loss is not None and theirs.initial_loss is not None
    ]
    if not differences:
        return None
    value = next(each.value for each in study.arms if each.name == arm)
    evaluated = f"{arm} is evaluated in {value} and {BASELINE} in {study.baseline.value}"
    average, largest = mean(differences), max(map(abs, differences))
    if largest == 0:
        return f"{evaluated}: with the same untrained weights, both have the same loss."
    sign = "+" if average > 0 else ""
    over = f"{sign}{plain(average)} nats per target token"
    if len(differences) > 1:
        over += f" on average over {seeds_text(len(differences))}"
    if plain(largest) != plain(abs(average)):
        over += f", up to {plain(largest)} in one of them"
    return (
        f"{evaluated}: with the same untrained weights, {arm} - {BASELINE} is {over}. A difference "
        "at the end holds this part, which training did not make."
    )
