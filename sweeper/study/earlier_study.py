"""The frozen choice in the run folder of an earlier study; its database is not asked.

The chain's mirror says what was chosen, and is verified. The plan says under which settings: it is
believed where it has the fingerprint that the choice was frozen for.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from sweeper.errors import Fault, SweeperError
from sweeper.selection.chain import EntryKind, Link, verify
from sweeper.selection.evidence import StudyKind, kind_of
from sweeper.selection.frozen import Frozen
from sweeper.selection.opened import openings_in
from sweeper.study.chain_file import read_chain_file
from sweeper.study.document import Plain
from sweeper.study.fingerprint import Protocol, fingerprint
from sweeper.study.folder import StudyFolder
from sweeper.study.recorded import is_recorded
from sweeper.study.taken_choice import TakenChoice, sealed_test

Refuse = Callable[[Fault], SweeperError]
"""Returns the error for a fault; the caller says where it lies."""

_EXTENSION = "extension"
"""In the chain's note of an arm that was added: its name, beside its `value`."""


def choice_in(folder: StudyFolder, refuse: Refuse) -> TakenChoice:
    """Returns the last choice that the study in the folder froze.

    Raises:
        SweeperError: The one that `refuse` makes: there is none, or what is there is not whole.
    """
    links = whole_chain(folder, refuse)
    try:
        openings = openings_in(links)
        if openings.frozen is None:
            raise refuse(_not_frozen(folder))
        frozen = Frozen.from_facts(openings.frozen.facts)
        protocol, name, budget = _plan(folder, frozen)
        settings = _settings(protocol, frozen.arm, links)
        training = _mapping(settings["training"])
        return TakenChoice(
            study=name,
            arm=frozen.arm,
            learning_rate=float(cast("float", training["learning_rate"])),
            fingerprint=frozen.protocol,
            entry=openings.frozen.digest,
            at=openings.frozen.at,
            sentence=frozen.sentence,
            answer=frozen.answer,
            open_trials=frozen.open_trials,
            is_spent=frozen.is_spent,
            test=sealed_test(protocol),
            test_begun_at=_first(links, _BEGINNINGS),
            test_opened_at=_first(links, _RESULTS),
            chosen_under=settings,
            budget_target_tokens=budget,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise refuse(_damaged(folder, error)) from error


def whole_chain(folder: StudyFolder, refuse: Refuse) -> tuple[Link, ...]:
    """Returns the folder's chain, which is whole.

    Raises:
        SweeperError: The one that `refuse` makes: no study has begun there, or it is not.
    """
    if not folder.path.is_dir():
        hint = "Name the folder runs/NAME of a study whose choice `sweeper select` has frozen"
        what = "there is no such run folder"
        raise refuse(Fault(what=what, got=str(folder.path), hint=hint))
    if not is_recorded(folder) and not folder.plan.exists():
        hint = "Name the folder runs/NAME that a run of the earlier study made"
        what = "no study has begun in this folder"
        raise refuse(Fault(what=what, got=str(folder.path), hint=hint))
    try:
        links = read_chain_file(folder.chain)
    except (OSError, SweeperError) as error:
        raise refuse(_broken(folder, str(error).splitlines()[0])) from error
    if breaks := verify(links):
        raise refuse(_broken(folder, breaks[0].sentence))
    return links


def with_openings(taken: TakenChoice, links: Sequence[Link]) -> TakenChoice:
    """Returns the choice with what a chain that has it says of the test split by now."""
    if not any(link.digest == taken.entry for link in links):
        return taken
    return dataclasses.replace(
        taken,
        test_begun_at=_first(links, _BEGINNINGS),
        test_opened_at=_first(links, _RESULTS),
    )


_BEGINNINGS = frozenset({EntryKind.TEST_INTENT.value, EntryKind.TEST_REPEAT.value})
_RESULTS = frozenset({EntryKind.TEST_RESULT.value})


def _first(links: Sequence[Link], kinds: frozenset[str]) -> str | None:
    """Returns when there was the first entry of one of these kinds."""
    return next((link.at for link in links if link.kind in kinds), None)


def _plan(folder: StudyFolder, frozen: Frozen) -> tuple[Protocol, str, int]:
    """Returns the protocol, the name and the budget."""
    plan = _mapping(json.loads(folder.plan.read_bytes()))
    protocol = cast("Protocol", _mapping(plan["protocol"]))
    if fingerprint(protocol) != frozen.protocol:
        raise ValueError("a plan without the fingerprint that the choice was frozen for")
    given = _mapping(protocol["budget"]).get("target_tokens")
    return protocol, str(plan["name"]), int(str(given or plan["budget_target_tokens"]))


def _settings(protocol: Protocol, arm: str, links: Sequence[Link]) -> Protocol:
    """Returns the arm's own settings: the compared key has the arm's value."""
    compare = _mapping(protocol["compare"])
    key = str(compare["key"])
    section, _, name = key.partition(".")
    values, factors = compare.get("values"), compare.get("multiply")
    own = _mapping(protocol[section])
    if isinstance(values, Mapping) and arm in values:
        value = values[arm]
    elif isinstance(factors, Mapping) and arm in factors:
        product = float(own[name]) * float(factors[arm])  # type: ignore[arg-type]  # what is multiplied is a number
        value = round(product) if kind_of(key) is StudyKind.BATCH_SIZE else product
    else:
        value = _added(arm, links)
    return {**protocol, section: cast("Plain", {**own, name: value})}


def _added(arm: str, links: Sequence[Link]) -> float:
    """Returns the rate of an arm that was added beyond the edge."""
    for link in links:
        if link.kind == EntryKind.NOTE and link.facts.get(_EXTENSION) == arm:
            return float(str(link.facts["value"]))
    raise ValueError(f"no arm {arm}")


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"not an object: {value!r}")
    return value


def _not_frozen(folder: StudyFolder) -> Fault:
    return Fault(
        what="the earlier study has no frozen choice yet",
        got=str(folder.path),
        hint=f"`sweeper select {folder.path}` freezes it",
    )


def _broken(folder: StudyFolder, why: str) -> Fault:
    return Fault(
        what=f"the earlier study's chain is not whole: {why.rstrip('.')}",
        got=str(folder.chain),
        hint=f"`sweeper audit {folder.path}` says what became of it",
    )


def _damaged(folder: StudyFolder, error: Exception) -> Fault:
    return Fault(
        what="the earlier study's run folder does not say under which settings its choice was made",
        got=f"{folder.plan}: {error}"[:300],
        hint=f"Put a copy of {folder.plan.name} back; `sweeper audit {folder.path}` says what else "
        "is missing",
    )
