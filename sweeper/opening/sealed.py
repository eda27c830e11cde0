"""The test records: read, held against their seal, compared with the other splits, tokenised.

Runs in the child process. No message of this module repeats anything of what a record says, and
none of what a library says about one: places and digests only.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sweeper.data.manifest import (
    LISTED_RECORDS,
    Manifest,
    Overlap,
    changed_sources,
    files_digest,
)
from sweeper.data.options import DataOptions
from sweeper.data.overlaps import overlaps_between
from sweeper.data.prepared import PreparedSplit, write_split
from sweeper.data.preparing import choose_encoder, read_template
from sweeper.data.record import records_digest
from sweeper.data.request import ModelSource
from sweeper.data.sources import load_splits
from sweeper.data.splits import LoadedSplit, SplitSource, divide, load_split
from sweeper.data.tokenising import LengthPolicy, TokenisedSplit, tokenise
from sweeper.data.tokenizer import Tokenizer, load_tokenizer
from sweeper.errors import DataError, Fault, ModelError
from sweeper.opening.request import FoundOverlap

TEST = "test"

_PLACE = re.compile(r"record \d+ \(line \d+\)")


def read_sealed(options: DataOptions, manifest: Manifest) -> LoadedSplit:
    """Returns the test records, once they are shown to be those that were sealed.

    Args:
        options: The study's; its test file, or its source, is what is read.
        manifest: Of the prepared data.

    Raises:
        DataError: They are not, or they cannot be read.
    """
    assert manifest.test is not None, "a study without a test split has none to open"
    path = sealed_file(options)
    try:
        test = _read(options, manifest, path)
    except DataError:
        raise DataError(_other_records(path, None, manifest.test.records_digest)) from None
    found = records_digest(record.digest for record in test.records)
    if found != manifest.test.records_digest:
        raise DataError(_other_records(path, found, manifest.test.records_digest))
    return test


def sealed_file(options: DataOptions) -> Path:
    """Returns the file that holds the test records, among others where one source is divided."""
    source = options.source if options.split is not None else options.test
    assert source is not None
    assert source.path is not None, "the coordinator has asked for it"
    return Path(source.path)


def find_overlaps(
    test: LoadedSplit, options: DataOptions, manifest: Manifest, prepared: Path
) -> tuple[FoundOverlap, ...]:
    """Returns what the prepared splits share with the test records, split by split.

    Equal records are always looked for. Equal prompts were, while preparing, unless only the
    digest was known then: for that the other splits are read again, if their files are unchanged.
    """
    prompts = _prompts(test, options, manifest)
    return tuple(
        overlap
        for name in manifest.splits
        for overlap in (_exact(test, name, prepared), prompts[name])
    )


def tokenise_sealed(
    test: LoadedSplit, source: ModelSource, options: DataOptions, manifest: Manifest, folder: Path
) -> PreparedSplit:
    """Writes the test records as tokens, made as those of the other splits were.

    Args:
        folder: Must not exist yet.

    Raises:
        DataError: A record cannot be encoded, or none is left.
        ModelError: Model or tokenizer are not those that the data were prepared with.
    """
    tokenizer, identity = load_tokenizer(source, read_template(options))
    if identity.digest != manifest.model_digest:
        what = "not the model that the study was prepared with"
        raise ModelError(Fault(what=what, where=source.path))
    folder.mkdir()
    _refuse_another(tokenizer, manifest, folder)
    templated = test.format != "text" and tokenizer.has_template()
    encoder = choose_encoder(tokenizer, options, templated=templated)
    policy = LengthPolicy(max_length=options.max_length, overlong=options.overlong)
    try:
        tokenised: TokenisedSplit = tokenise(test, encoder, policy)
    except DataError as error:
        raise DataError(_not_tokenised(test, error)) from None
    write_split(folder / TEST, tokenised.records)
    return PreparedSplit.open(folder, TEST)


def _read(options: DataOptions, manifest: Manifest, path: Path) -> LoadedSplit:
    """Reads in the format of the other splits, which was settled while preparing."""
    form = manifest.splits["train"].format
    shares = options.split
    group = None if shares is None else shares.group
    source = SplitSource(name=TEST, path=path, format=form, fields=options.fields, group=group)
    loaded = load_split(source)
    return loaded if shares is None else divide(loaded, shares)[TEST]


def _other_records(path: Path, found: str | None, sealed: str) -> Fault:
    return Fault(
        what="not the test records that were sealed when the study was prepared",
        where=str(path),
        got="records that cannot be read" if found is None else f"records with digest {found}",
        expected=f"records with digest {sealed}",
        hint="Put the file back as it was, or name it with --test; `sweeper digest FILE` prints "
        "a file's digest, or what is wrong with it",
    )


def _exact(test: LoadedSplit, name: str, prepared: Path) -> FoundOverlap:
    sealed = {record.digest for record in test.records}
    digests = [digest.tobytes() for digest in PreparedSplit.open(prepared, name).digests]
    numbers = [n for n, digest in enumerate(digests, start=1) if digest in sealed]
    prepared_too = frozenset(digests)
    return FoundOverlap(
        kind="exact",
        split=name,
        count=len(numbers),
        record_numbers=tuple(numbers[:LISTED_RECORDS]),
        test_records=sum(record.digest in prepared_too for record in test.records),
    )


def _prompts(
    test: LoadedSplit, options: DataOptions, manifest: Manifest
) -> Mapping[str, FoundOverlap]:
    unknown = {
        name: FoundOverlap(kind="prompt", split=name, count=None) for name in manifest.splits
    }
    return unknown | {
        overlap.split: FoundOverlap(
            kind="prompt",
            split=overlap.split,
            count=overlap.count,
            record_numbers=overlap.record_numbers,
        )
        for overlap in _prompt_overlaps(test, options, manifest)
    }


def _prompt_overlaps(
    test: LoadedSplit, options: DataOptions, manifest: Manifest
) -> Iterator[Overlap]:
    assert manifest.test is not None
    if manifest.test.overlap_checked:
        known = manifest.overlaps
        yield from (each for each in known if each.held_out == TEST and each.kind == "prompt")
        return
    if changed_sources(manifest):
        return
    try:
        others = load_splits(options.model_copy(update={"test": None}))
    except DataError:
        return
    for name in manifest.splits:
        yield overlaps_between(others[name], test)[1]


def _refuse_another(tokenizer: Tokenizer, manifest: Manifest, folder: Path) -> None:
    """Holds the tokenizer's files against those that the data were prepared with."""
    tokenizer.save(folder / "tokenizer")
    files = [file for file in (folder / "tokenizer").rglob("*") if file.is_file()]
    found = files_digest(folder, files)
    shutil.rmtree(folder / "tokenizer")
    if found != manifest.tokenizer_digest:
        raise ModelError(
            Fault(
                what="not the tokenizer that the study was prepared with",
                where="model.path",
                got=found,
                expected=manifest.tokenizer_digest,
                hint="Its files, the chat template or the version of transformers have changed",
            )
        )


def _not_tokenised(test: LoadedSplit, error: DataError) -> Fault:
    places = [place for fault in error.faults for place in _PLACE.findall(fault.got or "")]
    return Fault(
        what="the test records cannot be tokenised as the study's other records are",
        where=str(test.source.path),
        got="; ".join(places) or None,
        hint="They are sealed as they are: a file with other records is another study's",
    )
