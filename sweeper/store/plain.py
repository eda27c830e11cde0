"""Values on their way into columns: canonical JSON, numbers that are not finite, foreign text.

What a trial or a library says may be anything: terminal commands, halves of characters, megabytes.
It is stored so that no database, terminal or reader of a file is harmed by it; the files in the
attempt's folder have it as it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

LONGEST_TEXT = 20_000
"""Characters of one piece of foreign text that are stored, a traceback for instance."""
LONGEST_DETAIL = 2_000
"""Likewise of a sentence that stands in tables."""

_BREAKS = "\n\t"
_UNREADABLE = (*range(32), *range(127, 160), 0x200E, 0x200F, *range(0x2028, 0x202F))
_TURNING = range(0x2066, 0x206A)
_ESCAPES = MappingProxyType(
    {
        code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
        for code in (*_UNREADABLE, *_TURNING)
        if chr(code) not in _BREAKS
    }
    | {ord("\r"): "\n"}
)
"""What a terminal would obey, or what turns the order of letters round; a carriage return is the
line end of a progress bar.
"""


def to_json(value: object) -> str:
    """Returns canonical JSON: sorted keys, no spaces, nonfinite numbers as "nan" or "inf"."""
    return _canonical(_finite(value, storable))


def to_harmless_json(value: object) -> str:
    """Returns the same of a value with foreign text in it, see `harmless`."""
    return _canonical(_finite(value, harmless))


def harmless_line(line: str) -> str:
    """Returns a line of JSON with every text in it harmless; numbers and names stay."""
    return json.dumps(_finite(json.loads(line), harmless), ensure_ascii=False, allow_nan=False)


def _canonical(value: object) -> str:
    return json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def without_nonfinite(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields with nonfinite numbers as None, and `nonfinite` naming them.

    `nonfinite` is None when there are none, else for instance `gradient_norm=inf loss=nan`.
    """
    bad = {name for name, value in fields.items() if _is_nonfinite(value)}
    named = " ".join(f"{name}={fields[name]}" for name in sorted(bad))
    kept = {name: None if name in bad else value for name, value in fields.items()}
    return kept | {"nonfinite": named or None}


def to_text(moment: datetime) -> str:
    """Returns an aware time as UTC text that sorts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_time(text: str) -> datetime:
    """Returns the aware time that the text stands for."""
    return datetime.fromisoformat(text)


def storable(text: str) -> str:
    """Returns the text with what a database refuses (lone surrogates, NUL) written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def readable(text: str) -> str:
    """Returns the text with everything that is no letter of it written as an escape."""
    return storable(text.replace("\r\n", "\n").translate(_ESCAPES))


def harmless(text: str, longest: int = LONGEST_TEXT) -> str:
    """Returns foreign text as it may be stored and shown; doing it again changes nothing.

    Of a text that is longer, head and tail are kept, and between them is said that it was cut.
    """
    head = tail = readable(text[:longest])
    if len(text) > longest:
        tail = readable(text[-longest:])
    elif len(head) <= longest:
        return head
    cut = f" [{len(text)} characters; the middle is left out] "
    room = longest - len(cut)
    assert room > 0, "too short to say so"
    return head[: room // 2] + cut + tail[len(tail) - (room - room // 2) :]


def _finite(value: object, written: Callable[[str], str]) -> object:
    if _is_nonfinite(value):
        return str(value)
    if isinstance(value, str):
        return written(value)
    if isinstance(value, Mapping):
        return {written(str(key)): _finite(item, written) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, written) for item in value]
    return value


def _is_nonfinite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
