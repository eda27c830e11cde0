"""From the study's `data` options to the text records of every split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sweeper.data.options import DataOptions, SealedSource, Source
from sweeper.data.splits import LoadedSplit, SplitSource, divide, load_split
from sweeper.errors import DataError, Fault


def load_splits(options: DataOptions) -> dict[str, LoadedSplit]:
    """Returns train, validation and, where the study has them, retention and test.

    Raises:
        DataError: Some file or record cannot be used; the faults of all files in one go.
    """
    faults = list(_not_read_yet(options))
    loaded: dict[str, LoadedSplit] = {}
    for source in _sources(options):
        try:
            loaded[source.name] = load_split(source)
        except DataError as error:
            faults.extend(error.faults)
    faults.extend(_several_formats(loaded))
    if faults:
        raise DataError(*faults)
    if options.split is None:
        return loaded
    return divide(loaded.pop("source"), options.split) | loaded


def holds_test_records(file: Path, splits: Mapping[str, LoadedSplit]) -> bool:
    """Returns whether the test split was read from this very file, under whatever name."""
    return "test" in splits and file.samefile(splits["test"].source.path)


def _sources(options: DataOptions) -> Iterator[SplitSource]:
    group = options.split.group if options.split else None
    named: dict[str, Source | SealedSource | None] = {
        "train": options.train,
        "validation": options.validation,
        "source": options.source,
        "test": options.test,
    }
    for name, source in named.items():
        if source is not None and source.path is not None:
            yield SplitSource(
                name=name,
                path=Path(source.path),
                format=options.format,
                fields=options.fields,
                group=group if name == "source" else None,
            )
    retention = options.retention
    if retention is not None and retention.path is not None:
        yield SplitSource(
            name="retention",
            path=Path(retention.path),
            format=retention.format,
            fields=retention.fields,
        )


def _not_read_yet(options: DataOptions) -> Iterator[Fault]:
    for name in ("train", "validation", "source", "test", "retention"):
        source: Source | SealedSource | None = getattr(options, name)
        if source is not None and source.hub is not None:
            yield Fault(
                what="data sets on a hub are not read yet",
                where=f"data.{name}.hub",
                got=source.hub,
                expected="a path to JSONL or JSON records",
                hint="Write the split to a file and give its path",
            )


def _several_formats(loaded: Mapping[str, LoadedSplit]) -> Iterable[Fault]:
    """Returns a fault where splits that share their options were read as different formats."""
    formats = {name: split.format for name, split in loaded.items() if name != "retention"}
    if len(set(formats.values())) < 2:
        return []
    return [
        Fault(
            what="the splits have different formats",
            where="data.format",
            got=", ".join(f"{name} is {kind}" for name, kind in formats.items()),
            expected="one format for train, validation and test",
        )
    ]
