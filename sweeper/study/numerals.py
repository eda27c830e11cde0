"""What someone meant by a number that is none: commas, quotes, exponents the wrong way round."""

from __future__ import annotations

import re

_WHOLE_GROUPS = re.compile(r"\d{1,3}([ ,]\d{3})+")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")


def repair(raw: str, *, quoted: bool, whole: bool) -> str | None:
    """Returns the hint that mends a mistyped number, or None when none is plain to see.

    Args:
        raw: The scalar as written, without its quotes.
        quoted: Whether it stood in quotes.
        whole: Whether a whole number is asked for.
    """
    text = raw.strip()
    if quoted and _number(text) is not None:
        return f"Remove the quotes: write {text}."
    if whole and _WHOLE_GROUPS.fullmatch(text):
        return f"Write the digits without gaps: {re.sub('[ ,]', '', text)}."
    if _DECIMAL_COMMA.fullmatch(text):
        return f"The decimal mark is a point: write {_shown(float(text.replace(',', '.')))}."
    if whole and (value := _number(text)) is not None and value.is_integer():
        return f"Write {int(value)}."
    return _without_last_sign(text)


def _without_last_sign(text: str) -> str | None:
    value = _number(text[:-1])
    match text[-1:]:
        case "," | ";" as sign if value is not None:
            return f"Remove the `{sign}`: write {_shown(value)}."
        case "%" if value is not None:
            return f"Write the share as a number: {_shown(value / 100)}."
    return None


def mirrored(value: float) -> str | None:
    """Returns a number too large for a rate with its exponent's sign turned: 5e5 gives `5e-5`."""
    mantissa, _, exponent = f"{value:e}".partition("e")
    size = int(exponent)
    return f"{float(mantissa):g}e-{size}" if size > 0 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _shown(value: float) -> str:
    return f"{value:.15g}"
