"""Preparing, top to bottom: read, compare, tokenise, write. Runs in a child process.

Until a selection is frozen this is the only code that opens the file with the test records. They
are read, digested and compared with the other splits; their tokens are not made, and nothing of
what they say is written or printed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.data.chat_encoding import ChatEncoder
from sweeper.data.encoding import Encoder, PlainEncoder
from sweeper.data.formats.format import KnownFormat
from sweeper.data.manifest import (
    Manifest,
    SealedManifest,
    SplitManifest,
    files_digest,
    tokens_digest,
)
from sweeper.data.options import DataOptions
from sweeper.data.overlaps import Compared, compare_splits
from sweeper.data.prepared import write_split
from sweeper.data.problems import counted
from sweeper.data.record import records_digest
from sweeper.data.request import PrepareRequest
from sweeper.data.sources import holds_test_records, load_splits
from sweeper.data.splits import LoadedSplit
from sweeper.data.tokenising import LengthPolicy, TokenisedSplit, tokenise
from sweeper.data.tokenizer import ModelIdentity, Tokenizer, load_tokenizer
from sweeper.data.writing import whole_folder
from sweeper.errors import DataError, Fault, ModelError

_LOG = logging.getLogger(__name__)
_PREPARED = ("train", "validation", "retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """All that is to be written."""

    request: PrepareRequest
    loaded: Mapping[str, LoadedSplit]
    compared: Compared
    tokenised: Mapping[str, TokenisedSplit]
    tokenizer: Tokenizer
    identity: ModelIdentity
    templated: frozenset[str]


def prepare(request: PrepareRequest, out: Path) -> Manifest:
    """Writes the prepared folder and returns its manifest.

    The folder appears whole: until then its parts are in a hidden folder beside it.

    Raises:
        DataError: Files, records or splits cannot be used.
        ModelError: The model has no usable tokenizer.
        RunFolderError: The folder cannot be written.
    """
    options = request.data
    loaded = load_splits(options)
    _LOG.info("read %s", ", ".join(f"{n}: {len(s.records)}" for n, s in loaded.items()))
    drop = options.duplicates == "drop_from_train"
    compared = compare_splits(loaded, drop_from_train=drop)
    tokenizer, identity = load_tokenizer(request.model, read_template(options))
    splits = {name: compared.splits[name] for name in _PREPARED if name in compared.splits}
    templated = _templated(splits, tokenizer, options)
    policy = LengthPolicy(max_length=options.max_length, overlong=options.overlong)
    tokenised: dict[str, TokenisedSplit] = {}
    for name, split in splits.items():
        encoder = choose_encoder(tokenizer, options, templated=name in templated)
        tokenised[name] = tokenise(split, encoder, policy)
        _LOG.info("tokenised %s: %s", name, counted(len(tokenised[name].records)))
    ready = _Ready(
        request=request,
        loaded=loaded,
        compared=compared,
        tokenised=tokenised,
        tokenizer=tokenizer,
        identity=identity,
        templated=templated,
    )
    return _write(ready, out)


def _write(ready: _Ready, out: Path) -> Manifest:
    with whole_folder(out, mark="manifest.json") as folder:
        ready.tokenizer.save(folder / "tokenizer")
        for name, split in ready.tokenised.items():
            write_split(folder / name, split.records)
        manifest = _manifest(ready, folder)
        (folder / "request.json").write_text(ready.request.to_json(), encoding="utf-8")
        (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    _LOG.info("wrote %s", out)
    return manifest


def read_template(options: DataOptions) -> str | None:
    """Returns the study's own chat template; None where it has none.

    Raises:
        DataError: It cannot be read.
    """
    if options.chat_template is None:
        return None
    try:
        return Path(options.chat_template).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = "the chat template cannot be read as UTF-8 text"
        raise DataError(
            Fault(what=what, where=f"data.chat_template: {options.chat_template}", got=str(error))
        ) from error


def _templated(
    splits: Mapping[str, LoadedSplit], tokenizer: Tokenizer, options: DataOptions
) -> frozenset[str]:
    """Returns the splits that are rendered with the chat template.

    Raises:
        ModelError: Conversations, but no template.
        DataError: Settings of a template that is not used, or that would not reach it.
    """
    chats = [name for name, split in splits.items() if split.format == "chat"]
    if chats and not tokenizer.has_template():
        raise ModelError(
            Fault(
                what="conversations need a chat template, and the tokenizer has none",
                where="model.path",
                got=f"conversations in {' and '.join(chats)}",
                hint="Give one with data.chat_template, or a model that was tuned for chat",
            )
        )
    templated = frozenset(
        name
        for name, split in splits.items()
        if split.format != "text" and tokenizer.has_template()
    )
    _check_template_settings(templated, tokenizer, options)
    return templated


def _check_template_settings(
    templated: frozenset[str], tokenizer: Tokenizer, options: DataOptions
) -> None:
    given = options.template_arguments or options.chat_template is not None
    if given and not templated:
        what = "no split is rendered with a chat template, so its settings cannot be honoured"
        raise DataError(Fault(what=what, where="data.chat_template, data.template_arguments"))
    taken = sorted(options.template_arguments.keys() & tokenizer.template_parameters())
    if taken:
        what = "these names are taken by the rendering itself and would not reach the template"
        raise DataError(Fault(what=what, where="data.template_arguments", got=", ".join(taken)))


def choose_encoder(tokenizer: Tokenizer, options: DataOptions, *, templated: bool) -> Encoder:
    """Returns what turns the records of a split into tokens.

    Args:
        tokenizer: The model's, with the template in it.
        options: The study's.
        templated: Whether the split is rendered with the chat template.
    """
    if templated:
        return ChatEncoder.of(tokenizer, options.supervise, options.template_arguments)
    return PlainEncoder.of(tokenizer, options.supervise)


def _manifest(ready: _Ready, folder: Path) -> Manifest:
    splits = {name: _split_manifest(ready, name, folder / name) for name in ready.tokenised}
    pad_token_id = ready.tokenizer.pad_token_id()
    largest = max(
        max(record.token_ids) for split in ready.tokenised.values() for record in split.records
    )
    return Manifest(
        request_digest=ready.request.digest(),
        model_digest=ready.identity.digest,
        model_commit=ready.identity.commit,
        tokenizer_digest=files_digest(folder, _files(folder / "tokenizer")),
        uses_chat_template=bool(ready.templated),
        pad_token_id=pad_token_id,
        vocabulary_size=max(largest, pad_token_id) + 1,
        splits=splits,
        test=_sealed(ready),
        overlaps=ready.compared.overlaps,
        notices=tuple(_notices(ready)),
    )


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _split_manifest(ready: _Ready, name: str, folder: Path) -> SplitManifest:
    loaded, tokenised = ready.loaded[name], ready.tokenised[name]
    source = loaded.source
    lengths = [len(record.token_ids) for record in tokenised.records]
    duplicates = ready.compared.dropped if name == "train" else ()
    return SplitManifest(
        source=str(source.path),
        size_bytes=source.size_bytes,
        modified_ns=source.modified_ns,
        file_sha256=source.sha256,
        holds_test_records=holds_test_records(source.path, ready.loaded),
        format=loaded.format,
        records_read=len(loaded.records),
        records=len(tokenised.records),
        dropped=(*duplicates, *tokenised.dropped),
        cut=tokenised.cut,
        target_tokens=sum(sum(record.supervised) for record in tokenised.records),
        input_tokens=sum(lengths),
        longest_tokens=max(lengths),
        records_digest=records_digest(record.digest for record in tokenised.records),
        tokens_digest=tokens_digest(folder),
    )


def _sealed(ready: _Ready) -> SealedManifest | None:
    test = ready.loaded.get("test")
    if test is not None:
        return SealedManifest(
            source=str(test.source.path),
            records=len(test.records),
            records_digest=records_digest(record.digest for record in test.records),
            overlap_checked=True,
        )
    given = ready.request.data.test
    if given is None or given.sha256 is None:
        return None
    return SealedManifest(
        source=None, records=None, records_digest=given.sha256, overlap_checked=False
    )


def _notices(ready: _Ready) -> Iterator[str]:
    for name, split in ready.loaded.items():
        # Of the test split not even the remarks on its records are repeated.
        yield from split.notices if name != "test" else ()
    yield from ready.compared.notices
    for name, tokenised in ready.tokenised.items():
        yield f"{name}: {_how(ready.loaded[name].format, templated=name in ready.templated)}"
        yield from tokenised.notices
    sealed = _sealed(ready)
    if sealed is not None and sealed.overlap_checked:
        yield f"test: {counted(sealed.records or 0)}, sealed"
    elif sealed is not None:
        yield "test: given by its digest; overlap with it is not checkable until it is opened"
    if ready.templated and "strftime_now" in ready.tokenizer.template_text():
        yield "the chat template writes the date of preparing into the prompts"


def _how(kind: KnownFormat, *, templated: bool) -> str:
    if templated:
        return "rendered with the chat template"
    return "texts as they are" if kind == "text" else "prompt and answer joined as plain text"
