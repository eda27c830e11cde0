"""What a reader has to know before anything else: marks at the top of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.report.dossier import Dossier
from sweeper.selection.chain import verify
from sweeper.selection.opened_sentences import (
    SPENT,
    aborted_openings,
    leak_sentence,
    times_evaluated,
)
from sweeper.selection.refrozen import NOT_AS_FROZEN, SHOWN_AS_FROZEN, other_conclusions
from sweeper.study.taken_choice import sealed_test


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A word that stands out, and the sentence behind it."""

    word: str
    sentence: str


def marks(dossier: Dossier) -> list[Mark]:
    """Returns the marks that apply, the gravest first."""
    return [Mark(word=word, sentence=sentence) for word, sentence in _marks(dossier)]


def _marks(dossier: Dossier) -> Iterator[tuple[str, str]]:
    found, frozen = dossier.comparison, dossier.frozen
    if verify(dossier.links):
        yield "Tampered with", "The chain of the record is broken: see the audit below."
    if frozen is not None and (other := other_conclusions(frozen, found)):
        yield NOT_AS_FROZEN, f"{' '.join(other)} {SHOWN_AS_FROZEN}"
    yield from _about_the_test(dossier)
    if found.is_pending:
        yield "In progress", "Trials may still go on: nothing on this page is final."
    elif found.is_partial:
        yield "Partial", f"{_missing(dossier)} What is said rests on the trials there are."
    if found.answer.is_provisional or any(arm.verdict.is_provisional for arm in found.arms):
        yield "Provisional", f"{len(found.seeds)} seeds stand behind it: too few to act on."
    if any(arm.breaks for arm in found.arms):
        broken = ", ".join(arm.arm for arm in found.arms if arm.breaks)
        yield "Not comparable", f"A gate was broken: no difference is reported for {broken}."
    if frozen is not None and frozen.number > 1:
        yield f"Frozen {frozen.number} times", f"Reasons given: {'; '.join(frozen.reasons)}."


def _about_the_test(dossier: Dossier) -> Iterator[tuple[str, str]]:
    frozen, openings, taken = dossier.frozen, dossier.openings, dossier.taken
    for first in openings.results[:1]:
        leaked = leak_sentence(first.leaks, records=first.records_read)
        if leaked is not None:
            yield "Test records leaked", leaked
    repeated = times_evaluated(openings)
    if repeated is not None:
        count = len(openings.results)
        yield f"Test split evaluated {count} times", repeated
    if frozen is not None and frozen.is_spent:
        yield "Test split spent", SPENT
    seen = None if taken is None else taken.seen(sealed_test(dossier.recorded.protocol))
    if seen is not None:
        yield "Test split seen before", seen
    aborted = aborted_openings(openings)
    if aborted is not None:
        yield "Opening aborted", aborted


def _missing(dossier: Dossier) -> str:
    cells = dossier.evidence.all_cells()
    missing = [f"{cell.arm}/{cell.seed}" for cell in cells if cell.is_missing]
    verb = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {len(cells)} trials {verb} missing ({', '.join(missing)})."
