"""Mistyped numbers and what was meant."""

from __future__ import annotations

import pytest

from sweeper.study.numerals import mirrored, repair


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("3e-4,", "Remove the `,`: write 0.0003."),
        ("3e-4;", "Remove the `;`: write 0.0003."),
        ("0,0003", "The decimal mark is a point: write 0.0003."),
        ("1,5e-4", "The decimal mark is a point: write 0.00015."),
        ("5%", "Write the share as a number: 0.05."),
        ("fast", None),
        ("", None),
    ],
)
def test_a_number_with_a_stray_sign_is_mended(raw, hint) -> None:
    assert repair(raw, quoted=False, whole=False) == hint


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("2e4", "Write 20000."),
        ("20,000", "Write the digits without gaps: 20000."),
        ("20 000", "Write the digits without gaps: 20000."),
        ("1.5", None),
        ("inf", None),
    ],
)
def test_a_whole_number_is_mended(raw, hint) -> None:
    assert repair(raw, quoted=False, whole=True) == hint


def test_quotes_around_a_number_are_named() -> None:
    assert repair("3e-4", quoted=True, whole=False) == "Remove the quotes: write 3e-4."


@pytest.mark.parametrize(
    ("value", "meant"),
    [(5e5, "5e-5"), (500000, "5e-5"), (20, "2e-1"), (2.5e4, "2.5e-4"), (2, None)],
)
def test_a_rate_with_the_exponents_sign_turned(value, meant) -> None:
    assert mirrored(value) == meant
