"""Whether a study file says what its study agreed on: the file against the protocol on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sweeper.study.document import Plain
from sweeper.study.fingerprint import ABSENT, Difference, Protocol, declared, differences
from sweeper.study.loading import StudyFile
from sweeper.study.taken_choice import BASELINE_FACTS


def disagreements(study_file: StudyFile, protocol: Mapping[str, object]) -> tuple[Difference, ...]:
    """Returns the keys in which the file does not say what the protocol on record does.

    What only preparing finds, contents for instance, is in no study file and is left out; whether
    the file names a template or an earlier choice is compared. A key that the protocol lacks and
    the file does not give is a later version's at its default.
    """
    study = study_file.study
    said = _with_marks(
        declared(study), template=study.data.chat_template, baseline=study.baseline is not None
    )
    agreed = _without_contents(cast("Protocol", dict(protocol)))  # it is JSON
    found = [
        each
        for each in differences(agreed, said)
        if each.old != ABSENT or each.key in study_file.given or not _is_one_more(each, agreed)
    ]
    return tuple(each for each in found if not _is_told_in_full(each, found))


def _is_one_more(difference: Difference, agreed: Protocol) -> bool:
    """Whether the key is one more beside others that the protocol has."""
    around: Plain = agreed
    for name in difference.key.split(".")[:-1]:
        around = around.get(name) if isinstance(around, dict) else None
    return isinstance(around, dict)


def _is_told_in_full(difference: Difference, found: list[Difference]) -> bool:
    """Whether the key has become a mapping, each key of which is a difference of its own."""
    inside = f"{difference.key}."
    return difference.new == ABSENT and any(each.key.startswith(inside) for each in found)


def _without_contents(protocol: Protocol) -> Protocol:
    """Returns the protocol as far as a study file says it."""
    model, data = protocol.get("model"), protocol.get("data")
    known, template = dict(protocol), None
    if isinstance(model, Mapping):
        known["model"] = {name: model[name] for name in model if name != "content"}
    if isinstance(data, Mapping):
        template = data.get("chat_template")
        known["data"] = {name: data[name] for name in data if name != "splits"}
    return _with_marks(known, template=template, baseline=known.get(BASELINE_FACTS) is not None)


def _with_marks(protocol: Protocol, *, template: Plain, baseline: bool) -> Protocol:
    """Returns the protocol with only whether there is a template and an earlier choice."""
    data = protocol.get("data")
    marked: Protocol = {**protocol, BASELINE_FACTS: "an earlier choice" if baseline else None}
    if isinstance(data, Mapping):
        marked["data"] = {**data, "chat_template": None if template is None else "a file"}
    return marked
