"""What a rate was chosen under, and where a study that takes it would differ from that. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sweeper.study.document import Finding, KeyPath, Plain
from sweeper.study.findings import StudyDocument
from sweeper.study.fingerprint import ABSENT, Difference, Protocol, differences
from sweeper.study.schema import Study
from sweeper.study.taken_choice import TakenChoice

_SECTIONS = ("model", "tune", "lora", "data", "training")
"""What a rate was chosen under; seeds, evaluation, stop rules and selection may be others."""
_FREE = frozenset({"training.learning_rate", "data.splits.test"})
"""The rate is what is taken, and records that nobody has seen are better than known ones."""
_FOUND_BY_PREPARING = ("model.content", "data.splits", "data.chat_template")


def other_settings(
    document: StudyDocument, protocol: Protocol, taken: TakenChoice, *, prepared: bool
) -> Iterator[Finding]:
    """Yields where the baseline would be run otherwise than the chosen arm was.

    Args:
        prepared: Look at what only preparing the data finds; else at all the rest.
    """
    there, here = _compared(taken.chosen_under or {}), _compared(protocol)
    found = differences(there, here)
    for each in found:
        is_found_by_preparing = each.key.startswith(_FOUND_BY_PREPARING)
        if is_found_by_preparing == prepared and _tells_something(each, found):
            path, other = _in_the_file(each.key, document)
            yield document.finding(
                path,
                f"the rate of study {taken.study} was chosen with {other}",
                got=_shown(each.new),
                expected=f"{_shown(each.old)}, as its arm {taken.arm} had",
            )


def _in_the_file(key: str, document: StudyDocument) -> tuple[KeyPath, str]:
    """Returns the path that decides about a key of the protocol, and what is another there."""
    path = tuple(key.split("."))
    if path == ("model", "content"):
        return ("model", "path"), "the files of another model, by their digest"
    if path[:2] == ("data", "splits"):
        split = path[2] if document.holds(("data", path[2])) else "source"
        what = "tokens" if path[-1] == "tokens" else "records"
        return ("data", split), f"other {what}, by their digest"
    if path == ("data", "chat_template"):
        return path, "another template, by its digest"
    return path, "another value"


def _compared(protocol: Protocol) -> Protocol:
    flat = {
        name: value
        for section in _SECTIONS
        for name, value in _leaves(protocol.get(section), section)
    }
    return {name: value for name, value in flat.items() if name not in _FREE}


def _leaves(value: Plain, key: str) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, dict) and value:
        for name, entry in value.items():
            yield from _leaves(entry, f"{key}.{name}")
    else:
        yield key, value


def _tells_something(difference: Difference, others: tuple[Difference, ...]) -> bool:
    """Whether no other difference says the same: of `null` against keys, the keys are told."""
    stem, _, last = difference.key.rpartition(".")
    if stem.startswith("data.splits.") and last == "tokens":  # other records have other tokens
        return not any(each.key == f"{stem}.records" for each in others)
    if ABSENT not in (difference.old, difference.new):
        return True
    if difference.key.startswith("lora") and any(each.key == "tune" for each in others):
        return False
    return not any(each.key.startswith(f"{difference.key}.") for each in others)


def _shown(text: str) -> str:
    if text in (ABSENT, "null"):
        return "nothing"
    plain = text.strip('"')
    return plain[:12] if _DIGEST.fullmatch(plain) else plain


_DIGEST = re.compile("[0-9a-f]{64}")


def other_budget(
    study: Study, document: StudyDocument, taken: TakenChoice, budget: int | None
) -> Iterator[Finding]:
    """Yields that the trials would read another number of target tokens.

    Args:
        budget: What they would read; None where that is not known yet.
    """
    if budget is None or taken.budget_target_tokens in (budget, None):
        return
    unit = "target_tokens" if study.budget.epochs is None else "epochs"
    yield document.finding(
        ("budget", unit),
        f"the rate of study {taken.study} was chosen with another budget",
        got=f"{budget} target tokens",
        expected=f"{taken.budget_target_tokens} target tokens, as its arm {taken.arm} had",
    )
