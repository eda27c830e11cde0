"""The part of Python's own help topics that the base model never sees.

One rule, one place: `pretrain_base.py` keeps these topics out of pretraining and
`quickstart_data.py` makes the retention split of them, so the two can not drift apart.
"""

from __future__ import annotations

import hashlib
import re
from pydoc_data.topics import topics

HELD_OUT_PART = 10
SHARED_WORDS = 8


def is_held_out(name: str) -> bool:
    """Tells by the topic's name alone, so that the answer survives a new Python version."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % HELD_OUT_PART == 0


def held_out_topics() -> dict[str, str]:
    """Returns the held-out topics of this Python, name to text, in order of name."""
    return {name: topics[name] for name in sorted(topics) if is_held_out(name)}


def training_topics() -> dict[str, str]:
    """Returns the other topics without the paragraphs they share with a held-out one.

    Python's topics overlap: "specialnames" holds the whole of "sequence-types". A topic kept
    out by name alone would be seen in pretraining through the larger one.
    """
    seen = {run for text in held_out_topics().values() for run in _runs_of_words(text)}
    kept = {}
    for name in sorted(topics):
        if not is_held_out(name):
            own = [part for part in paragraphs(topics[name]) if not _runs_of_words(part) & seen]
            kept[name] = "\n\n".join(own)
    return kept


def paragraphs(text: str) -> list[str]:
    """Splits a text at its blank lines; indentation and line breaks inside are kept."""
    return [part.rstrip() for part in re.split(r"\n[ \t]*\n", text.strip("\n")) if part.strip()]


def _runs_of_words(text: str) -> set[tuple[str, ...]]:
    """Returns every run of SHARED_WORDS words, within one paragraph; a shorter one is one run."""
    runs: set[tuple[str, ...]] = set()
    for part in paragraphs(text):
        words = part.split()
        last = max(1, len(words) - SHARED_WORDS + 1)
        runs.update(tuple(words[start : start + SHARED_WORDS]) for start in range(last))
    return runs
