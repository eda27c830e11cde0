"""The head of a model card: the metadata that a hub reads, as YAML. Pure.

Every text is in double quotes: readers take YAML 1.1, in which a bare yes, 1e-4 or 12:30 is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON leaves as it is, and YAML refuses or takes for the end of a line."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def metadata(entries: Mapping[str, str | Sequence[str]]) -> str:
    """Returns the block between its two lines of dashes."""
    lines = []
    for key, value in entries.items():
        if isinstance(value, str):
            lines.append(f"{key}: {quoted(value)}")
        else:
            lines += [f"{key}:", *(f"- {quoted(each)}" for each in value)]
    return "\n".join(["---", *lines, "---"]) + "\n"


def quoted(text: str) -> str:
    """Returns the text in double quotes, as YAML, JSON and Python read it alike."""
    whole = _SURROGATES.sub("\ufffd", text)
    written = json.dumps(whole, ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
