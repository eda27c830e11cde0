"""What a number of seeds can show; figures from the table of the statistics reference."""

from __future__ import annotations

import pytest

from sweeper.study.resolution import resolution_of


@pytest.mark.parametrize(
    ("seeds", "one", "two", "sign_flip"),
    [
        (2, 11.6, 23.1, 0.5),
        (3, 3.26, 4.63, 0.25),
        (4, 2.13, 2.72, 0.125),
        (5, 1.68, 2.05, 0.0625),
        (6, 1.44, 1.71, 0.03125),
        (8, 1.16, 1.34, 0.0078125),
        (10, 1.00, 1.14, 0.001953125),
    ],
)
def test_the_detectable_difference_for_one_and_two_comparisons(seeds, one, two, sign_flip) -> None:
    single = resolution_of(seeds=seeds, comparisons=1)
    pair = resolution_of(seeds=seeds, comparisons=2)

    assert single.detectable_sd == pytest.approx(one, rel=5e-3)
    assert pair.detectable_sd == pytest.approx(two, rel=5e-3)
    assert single.smallest_sign_flip_p == sign_flip


@pytest.mark.parametrize(
    ("seeds", "claim"),
    [(1, "none"), (2, "none"), (3, "provisional"), (4, "provisional"), (5, "reliable")],
)
def test_the_strongest_claim_that_so_many_seeds_allow(seeds, claim) -> None:
    assert resolution_of(seeds=seeds, comparisons=2).strongest_claim == claim


def test_one_seed_resolves_nothing() -> None:
    resolution = resolution_of(seeds=1, comparisons=2)

    assert resolution.detectable_sd is None
    assert resolution.sentences == (
        (
            "1 seed cannot show whether a difference is more than chance: no claim"
            " will be made below"
            " 3 seeds."
        ),
    )


def test_three_seeds_in_words() -> None:
    assert resolution_of(seeds=3, comparisons=2).sentences == (
        (
            "3 seeds allow a provisional statement at most: no sign test can reach 5"
            " % with fewer than"
            " 6, and a reliable one takes 5 seeds."
        ),
        (
            "A difference is found in 4 studies of 5 when it is at least 4.6 times the standard"
            " deviation of the paired differences (2 comparisons, 5 % in all). A"
            " difference that was"
            " not found does not show that the arms are equal."
        ),
    )


def test_five_seeds_in_words() -> None:
    assert resolution_of(seeds=5, comparisons=1).sentences == (
        "5 seeds allow a reliable statement about these data and settings.",
        (
            "A difference is found in 4 studies of 5 when it is at least 1.7 times the standard"
            " deviation of the paired differences (1 comparison, 5 % in all). A difference that was"
            " not found does not show that the arms are equal."
        ),
    )
