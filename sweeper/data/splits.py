"""Records of each split, and one source divided into splits."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.data.formats.detection import choose_format
from sweeper.data.formats.format import Format, KnownFormat, Parsed
from sweeper.data.options import FieldNames, FormatName, SplitShares
from sweeper.data.problems import BadRecord, Place, Tally, counted, listed
from sweeper.data.reading import RawRecord, SourceFile, kind_of, read_file
from sweeper.data.record import JsonValue, TextRecord, prompt_key, record_digest
from sweeper.errors import DataError, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRecord:
    """A record with what it is compared by.

    Attributes:
        place: Where it stands in its file.
        digest: SHA-256 of the canonical record.
        prompt: The normalised prompt.
        group: Value of the study's group column; None when there is none.
    """

    place: Place
    record: TextRecord
    digest: bytes
    prompt: str
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSplit:
    """The records of one split as text."""

    name: str
    source: SourceFile
    format: KnownFormat
    records: tuple[LoadedRecord, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSource:
    """Where a split is read from, and how.

    Attributes:
        group: Column whose equal values stay in one split.
    """

    name: str
    path: Path
    format: FormatName
    fields: FieldNames
    group: str | None = None


def load_split(source: SplitSource) -> LoadedSplit:
    """Returns the records of one file.

    Raises:
        DataError: The file or some of its records cannot be used; all faults in one go.
    """
    file, raw = read_file(source.path)
    chosen = choose_format(source.format, raw, source.fields, where=str(source.path))
    tally = Tally()
    parsed = [(entry, _parsed(entry, chosen, source, tally)) for entry in raw]
    usable = [(entry, record) for entry, record in parsed if record is not None]
    records = tuple(_loaded(entry, record, source, tally) for entry, record in usable)
    faults = tally.faults(str(source.path))
    if faults:
        raise DataError(*faults)
    notices = list(_notices(source, file, chosen, usable))
    return LoadedSplit(
        name=source.name, source=file, format=chosen.name, records=records, notices=tuple(notices)
    )


def divide(loaded: LoadedSplit, shares: SplitShares) -> dict[str, LoadedSplit]:
    """Returns the records of one source as train, validation and, if it has a share, test.

    Records with an equal normalised prompt or an equal group stay together: a bundle goes where
    the smallest hash of its prompts points. The test split takes the lowest hashes, so that
    changing the validation share leaves it alone.

    Raises:
        DataError: A split would get no records.
    """
    names = ["train", "validation", *(["test"] if shares.test > 0 else [])]
    chosen = [_split_of(position, shares) for position in _positions(loaded.records)]
    splits = {name: _part(loaded, name, chosen) for name in names}
    empty = [name for name, split in splits.items() if not split.records]
    if empty:
        bundles = len(set(_positions(loaded.records)))
        what = f"dividing the source leaves no records for {' and '.join(empty)}"
        got = f"{counted(len(loaded.records))} in {counted(bundles, 'bundle')} of equal prompts"
        raise DataError(
            Fault(
                what=what,
                where=str(loaded.source.path),
                got=got,
                hint="Raise the share under data.split, or give the splits as files",
            )
        )
    sizes = ", ".join(f"{len(split.records)} for {name}" for name, split in splits.items())
    train = splits["train"]
    notices = (*loaded.notices, f"source: divided by hash of the prompt: {sizes}")
    return splits | {"train": dataclasses.replace(train, notices=notices)}


def _parsed(entry: RawRecord, chosen: Format, source: SplitSource, tally: Tally) -> Parsed | None:
    try:
        return chosen.parse(entry.value, source.fields)
    except BadRecord as problem:
        tally.add(problem, entry.place)
        return None


def _loaded(entry: RawRecord, parsed: Parsed, source: SplitSource, tally: Tally) -> LoadedRecord:
    group = None
    if source.group is not None:
        try:
            group = _group(entry.value.get(source.group), source.group)
        except BadRecord as problem:
            tally.add(problem, entry.place)
    return LoadedRecord(
        place=entry.place,
        record=parsed.record,
        digest=record_digest(parsed.record),
        prompt=prompt_key(parsed.record),
        group=group,
    )


def _group(value: JsonValue, key: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    what = "empty" if isinstance(value, str) else kind_of(value)
    raise BadRecord(f"the group column `{key}` is {what}", expected="text or a whole number")


def _notices(
    source: SplitSource,
    file: SourceFile,
    chosen: Format,
    usable: Sequence[tuple[RawRecord, Parsed]],
) -> Iterable[str]:
    how = " by its keys" if source.format == "auto" else ""
    read = f"read as {file.form}, format {chosen.name}{how}"
    yield f"{source.name}: {counted(len(usable))} {read}"
    remarks: dict[str, list[int]] = {}
    unread: Counter[str] = Counter()
    for entry, parsed in usable:
        unread.update(entry.value.keys() - parsed.keys_read - {source.group})
        for remark in parsed.remarks:
            remarks.setdefault(remark, []).append(entry.place.record)
    for remark, numbers in remarks.items():
        where = f"in {counted(len(numbers))} (number {listed(numbers, len(numbers))})"
        yield f"{source.name}: {remark}, {where}"
    if unread:
        yield f"{source.name}: columns not read: {', '.join(sorted(unread))}"


def _part(loaded: LoadedSplit, name: str, chosen: Sequence[str]) -> LoadedSplit:
    records = tuple(
        record for record, split in zip(loaded.records, chosen, strict=True) if split == name
    )
    return dataclasses.replace(loaded, name=name, records=records, notices=())


def _split_of(position: float, shares: SplitShares) -> str:
    if position < shares.test:
        return "test"
    return "validation" if position < shares.test + shares.validation else "train"


def _positions(records: Sequence[LoadedRecord]) -> list[float]:
    """Returns a number in [0, 1) per record, equal within a bundle and fixed by its prompts.

    A bundle is known by the smallest digest of its prompts, and that is hashed once more for the
    position: the smallest of many positions would be small.
    """
    bundles = _bundles(records)
    names: dict[int, bytes] = {}
    for record, bundle in zip(records, bundles, strict=True):
        digest = hashlib.sha256(b"split " + record.prompt.encode()).digest()
        names[bundle] = min(digest, names.get(bundle, digest))
    return [_position(names[bundle]) for bundle in bundles]


def _position(name: bytes) -> float:
    # 53 bits are what a float holds exactly; the result stays below 1.
    head = hashlib.sha256(name).digest()[:8]
    return (int.from_bytes(head, "big") >> 11) / 2**53


def _bundles(records: Sequence[LoadedRecord]) -> list[int]:
    """Returns one number per record; records that must stay together have the same one."""
    parent = list(range(len(records)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, record in enumerate(records):
        keys = [("prompt", record.prompt)]
        keys += [("group", record.group)] if record.group is not None else []
        for key in keys:
            parent[root(index)] = root(first.setdefault(key, index))
    return [root(index) for index in range(len(records))]
