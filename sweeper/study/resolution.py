"""What a number of seeds can and cannot show, told before the first trial."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.selection.case import FEWEST_PAIRS_FOR_A_SELECTION
from sweeper.selection.differences import ALPHA, FEWEST_PAIRS_FOR_A_CLAIM
from sweeper.selection.sentences import FEWEST_PAIRS_FOR_A_SIGN_TEST
from sweeper.selection.statistics import detectable_in_sd


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a study of this size resolves.

    Attributes:
        seeds: Pairs of an arm and the baseline.
        comparisons: Arms beside the baseline: the family that Holm's correction covers.
        detectable_sd: The true mean difference that is found in four studies of five, in standard
            deviations of a difference between paired trials; None below two seeds.
        smallest_sign_flip_p: The least two-sided p that the sign-flip test can give.
        strongest_claim: `none`, `provisional` or `reliable`.
    """

    seeds: int
    comparisons: int
    detectable_sd: float | None
    smallest_sign_flip_p: float
    strongest_claim: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same in words."""
        return (self._claim(), *self._detectable())

    def _claim(self) -> str:
        match self.strongest_claim:
            case "none":
                return (
                    f"{_seeds(self.seeds)} cannot show whether a difference is more than chance:"
                    f" no claim will be made below {FEWEST_PAIRS_FOR_A_CLAIM} seeds."
                )
            case "provisional":
                return (
                    f"{_seeds(self.seeds)} allow a provisional statement at most: no sign test can"
                    f" reach 5 % with fewer than {FEWEST_PAIRS_FOR_A_SIGN_TEST}, and a reliable"
                    f" one takes {FEWEST_PAIRS_FOR_A_SELECTION} seeds."
                )
        return f"{_seeds(self.seeds)} allow a reliable statement about these data and settings."

    def _detectable(self) -> tuple[str, ...]:
        if self.detectable_sd is None:
            return ()
        text = (
            f"A difference is found in 4 studies of 5 when it is at least {self.detectable_sd:.1f}"
            " times the standard deviation of the paired differences"
            f" ({_comparisons(self.comparisons)}, 5 % in all). A difference that was not found"
            " does not show that the arms are equal."
        )
        return (text,)


def resolution_of(*, seeds: int, comparisons: int) -> Resolution:
    """Returns what so many seeds resolve.

    The level is Holm's first one: 5 % / comparisons.
    """
    if seeds < FEWEST_PAIRS_FOR_A_CLAIM:
        claim = "none"
    else:
        claim = "reliable" if seeds >= FEWEST_PAIRS_FOR_A_SELECTION else "provisional"
    return Resolution(
        seeds=seeds,
        comparisons=comparisons,
        detectable_sd=detectable_in_sd(seeds, alpha=ALPHA / comparisons),
        smallest_sign_flip_p=2.0 ** (1 - seeds),
        strongest_claim=claim,
    )


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _comparisons(count: int) -> str:
    return "1 comparison" if count == 1 else f"{count} comparisons"
