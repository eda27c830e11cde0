"""What was held fixed: the settings and data that every conclusion is conditional on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import cast

from sweeper.report.columns import Column, Table
from sweeper.report.dossier import Dossier
from sweeper.selection.chain import EntryKind

SETTINGS = (
    Column(name="setting", kind="text", unit=None, meaning="key of the study file"),
    Column(name="value", kind="text", unit=None, meaning="the same in every trial"),
)
SPLITS = (
    Column(name="split", kind="text", unit=None, meaning="part of the data"),
    Column(name="records", kind="integer", unit="records", meaning="prepared"),
    Column(name="target_tokens", kind="integer", unit="target tokens", meaning="of these records"),
    Column(name="digest", kind="text", unit=None, meaning="SHA-256 over its ordered records"),
)
_STUDIED = ("model", "tune", "adapter", "data", "training", "evaluation", "stop", "selection")
_PATHS = frozenset({"path", "source"})
"""Keys that hold a path; of an absolute one the name alone is shown."""


def fixed_settings(dossier: Dossier) -> Table:
    """Returns the settings in effect; what is not set, and what is compared, is left out."""
    settings, factor = dossier.settings, dossier.comparison.factor
    sections: dict[str, object] = {
        name: getattr(settings, name) for name in _STUDIED if name != "adapter"
    }
    sections["lora"] = settings.adapter
    sections["budget"] = {"target_tokens": dossier.recorded.budget_target_tokens}
    plain = {name: _plain(section) for name, section in sections.items() if section is not None}
    rows = [
        {"setting": key, "value": _text(key, value, with_paths=dossier.discretion.with_paths)}
        for key, value in _flat("", plain)
        if key != factor and value not in (None, {}, [], ())
    ]
    if dossier.taken is not None:
        origin = dossier.taken.origin.removeprefix("baseline ")
        rows.append({"setting": "baseline", "value": origin})
    rows.append({"setting": "run.micro_batch", "value": str(settings.run.micro_batch)})
    rows.append({"setting": "seeds", "value": ", ".join(map(str, dossier.comparison.seeds))})
    return Table(rows=rows, columns=SETTINGS)


def data_splits(dossier: Dossier) -> Table | None:
    """Returns what was prepared, as the chain has it; None where it has it not."""
    created = [link for link in dossier.links if link.kind == EntryKind.STUDY_CREATED]
    data = created[0].facts.get("data") if created else None
    if not isinstance(data, Mapping) or not isinstance(data.get("splits"), Mapping):
        return None
    splits = cast("Mapping[str, Mapping[str, object]]", data["splits"])
    rows = [_split(name, split) for name, split in splits.items()]
    test = data.get("test")
    if isinstance(test, Mapping):
        rows.append(_split("test (sealed)", test))
    return Table(rows=rows, columns=SPLITS)


def environment(dossier: Dossier) -> Table:
    """Returns what the trials ran on: each field, and in which trials where it differs."""
    columns = (
        Column(name="field", kind="text", unit=None, meaning="of the environment record"),
        Column(name="value", kind="text", unit=None, meaning="as the trials reported it"),
    )
    cells = [cell for cell in dossier.evidence.all_cells() if cell.environment]
    names = sorted({name for cell in cells for name in cell.environment})
    rows = []
    for name in names:
        trials: dict[str, list[str]] = {}
        for cell in cells:
            value = cell.environment.get(name, "not recorded")
            trials.setdefault(value, []).append(f"{cell.arm}/{cell.seed}")
        values = [
            value if len(trials) == 1 else f"{value} ({', '.join(where)})"
            for value, where in trials.items()
        ]
        rows.append({"field": name, "value": dossier.discretion.foreign("; ".join(values))})
    return Table(rows=rows, columns=columns)


def _split(name: str, split: Mapping[str, object]) -> dict[str, object]:
    return {
        "split": name,
        "records": split.get("records"),
        "target_tokens": split.get("target_tokens"),
        "digest": split.get("records_digest"),
    }


def _plain(section: object) -> object:
    dump = getattr(section, "model_dump", None)
    return dump(mode="json") if callable(dump) else section


def _flat(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for name, entry in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), entry)
    else:
        yield prefix, value


def _text(key: str, value: object, *, with_paths: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    if key.rpartition(".")[2] in _PATHS and PurePath(text).is_absolute() and not with_paths:
        return PurePath(text).name
    return text
