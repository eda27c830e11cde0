"""The protocol of a study, and the fingerprint that tells two protocols apart.

The protocol holds what is studied and nothing of where or how it runs: no path, no prose, no
`run:`, no name. Models and records enter by what they contain; `auto` enters as written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sweeper.data.manifest import Manifest, file_sha256
from sweeper.study.document import Plain
from sweeper.study.places import absolute
from sweeper.study.schema import Study

Protocol = dict[str, Plain]

ABSENT = "(absent)"
"""Stands for the value of a key that only the other protocol has."""


class Difference(NamedTuple):
    """A key whose value differs, each value as canonical JSON."""

    key: str
    old: str
    new: str


def protocol_of(
    study: Study, manifest: Manifest, *, folder: Path, baseline: Plain = None
) -> Protocol:
    """Returns everything that is studied, as plain JSON values.

    Args:
        folder: What relative paths in the study are relative to.
        baseline: What identifies the earlier choice that the rate was taken from, if it was.
    """
    protocol, template = declared(study), study.data.chat_template
    model, data = protocol["model"], protocol["data"]
    assert isinstance(model, dict)
    assert isinstance(data, dict)
    model["content"] = manifest.model_digest
    data["chat_template"] = None if template is None else file_sha256(absolute(template, folder))
    data["splits"] = _splits(manifest)
    return protocol if baseline is None else {**protocol, "baseline": baseline}


def declared(study: Study) -> Protocol:
    """Returns what a study file says of it by itself, before its data are prepared."""
    not_studied = {"name", "justification", "baseline", "run"}
    protocol: Protocol = study.model_dump(mode="json", exclude=not_studied)
    protocol["question"] = {"kind": study.question.kind}
    protocol["model"] = study.model.model_dump(mode="json", exclude={"path"})
    protocol["lora"] = None if study.adapter is None else study.adapter.model_dump(mode="json")
    protocol["data"] = _data(study)
    return protocol


def _data(study: Study) -> Plain:
    places = {"train", "validation", "source", "test", "chat_template"}
    options: dict[str, Plain] = study.data.model_dump(mode="json", exclude=places)
    retention, own_format = study.data.retention, {"format", "fields"}
    return {
        **options,
        "retention": None if retention is None else retention.model_dump(include=own_format),
    }


def _splits(manifest: Manifest) -> Plain:
    splits: dict[str, Plain] = {
        name: {"records": split.records_digest, "tokens": split.tokens_digest}
        for name, split in manifest.splits.items()
    }
    test = None if manifest.test is None else manifest.test.records_digest
    return {**splits, "test": test}


def canonical_json(value: Plain) -> str:
    """Returns the one JSON text of a value: sorted keys, no spaces, floats by repr, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(protocol: Protocol) -> str:
    """Returns the SHA-256 of the protocol's canonical JSON, hexadecimal."""
    return hashlib.sha256(canonical_json(protocol).encode()).hexdigest()


def differences(old: Protocol, new: Protocol) -> tuple[Difference, ...]:
    """Returns the keys in which two protocols differ, sorted by key."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return tuple(
        Difference(key, before.get(key, ABSENT), after.get(key, ABSENT))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    )


def _leaves(value: Plain, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, entry in value.items():
            yield from _leaves(entry, f"{key}.{name}" if key else name)
    else:
        yield key, canonical_json(value)
