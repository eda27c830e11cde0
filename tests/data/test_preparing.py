"""From a request to the prepared folder, in this process; one byte is one token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sweeper.data.manifest import Manifest, Overlap, SealedManifest
from sweeper.data.options import (
    DataOptions,
    FieldNames,
    Packing,
    RetentionSource,
    SealedSource,
    Source,
    SplitShares,
)
from sweeper.data.prepared import PreparedSplit
from sweeper.data.preparing import prepare
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.errors import DataError, ModelError, UserError

ModelOf = Callable[..., str]
Write = Callable[..., str]


def pair(number: int) -> dict[str, str]:
    return {"prompt": f"prompt {number}", "answer": f"answer {number}"}


def digest(number: int) -> bytes:
    text = f'{{"answer":"answer {number}","prompt":"prompt {number}"}}'
    return hashlib.sha256(text.encode()).digest()


@pytest.fixture
def options(write_jsonl: Write) -> dict[str, object]:
    """Four records to train on, two to validate with; prompt, line feed, answer, end: 18 tokens."""
    return {
        "train": Source(path=write_jsonl("train.jsonl", *map(pair, range(1, 5)))),
        "validation": Source(path=write_jsonl("validation.jsonl", *map(pair, range(5, 7)))),
        "max_length": 64,
    }


@pytest.fixture
def prepared(tmp_path: Path, model_of: ModelOf) -> Callable[..., tuple[Manifest, Path]]:
    def run(
        options: dict[str, object], *, name: str = "prepared", **model: object
    ) -> tuple[Manifest, Path]:
        request = PrepareRequest(
            model=ModelSource(path=model_of(**model)),
            data=DataOptions(**options),  # type: ignore[arg-type]
        )
        return prepare(request, tmp_path / name), tmp_path / name

    return run


Prepared = Callable[..., tuple[Manifest, Path]]


def fault_of(prepared: Prepared, options: dict[str, object], **model: object) -> str:
    with pytest.raises(UserError) as caught:
        prepared(options, **model)
    return caught.value.faults[0].what


def test_the_manifest_counts_what_the_arrays_hold(
    prepared: Prepared, options: dict[str, object]
) -> None:
    manifest, out = prepared(options)
    train = manifest.splits["train"]
    assert (train.records_read, train.records, train.dropped, train.cut) == (4, 4, (), 0)
    assert (train.input_tokens, train.target_tokens, train.longest_tokens) == (72, 36, 18)
    assert train.format == "prompt_answer"
    split = PreparedSplit.open(out, "train")
    assert split.target_counts.tolist() == [9, 9, 9, 9]
    assert split.lengths.tolist() == [18, 18, 18, 18]
    assert Manifest.read(out) == manifest


def test_the_folder_holds_arrays_manifest_request_and_tokenizer(
    prepared: Prepared, options: dict[str, object]
) -> None:
    _, out = prepared(options)
    assert sorted(path.name for path in out.iterdir()) == [
        "manifest.json",
        "request.json",
        "tokenizer",
        "train",
        "validation",
    ]
    assert (out / "tokenizer" / "tokenizer.json").is_file()


def test_digests_are_those_of_the_canonical_records(
    prepared: Prepared, options: dict[str, object]
) -> None:
    manifest, out = prepared(options)
    split = PreparedSplit.open(out, "validation")
    assert [bytes(row) for row in split.digests] == [digest(5), digest(6)]
    expected = hashlib.sha256(digest(5) + digest(6)).hexdigest()
    assert manifest.splits["validation"].records_digest == expected
    assert split.records_digest == expected


def test_the_request_is_kept_and_known_by_its_digest(
    prepared: Prepared, options: dict[str, object]
) -> None:
    manifest, out = prepared(options)
    assert PrepareRequest.read(out / "request.json").digest() == manifest.request_digest


# Row 43: the same request makes the same data; another tokenizer makes others.
def test_preparing_twice_makes_the_same_bytes(
    prepared: Prepared, options: dict[str, object]
) -> None:
    one, _ = prepared(options, name="one")
    two, _ = prepared(options, name="two")
    assert one == two


def test_another_tokenizer_makes_other_tokens_of_the_same_records(
    prepared: Prepared, options: dict[str, object]
) -> None:
    plain = prepared(options)[0]
    merging = prepared(options, merges=[("a", "n")])[0]
    assert merging.tokenizer_digest != plain.tokenizer_digest
    assert merging.splits["train"].tokens_digest != plain.splits["train"].tokens_digest
    assert merging.splits["train"].records_digest == plain.splits["train"].records_digest


def test_white_space_that_changes_tokens_changes_their_digest_alone(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    plain = prepared(options)[0].splits["validation"]
    spaced = [pair(5), {"prompt": "prompt 6", "answer": " answer 6"}]
    other = options | {"validation": Source(path=write_jsonl("spaced.jsonl", *spaced))}
    spaced_split = prepared(other, name="other")[0].splits["validation"]
    assert spaced_split.records_digest == plain.records_digest
    assert spaced_split.tokens_digest != plain.tokens_digest


# Case B01.
def test_a_byte_order_mark_changes_the_file_and_nothing_else(
    prepared: Prepared, options: dict[str, object], tmp_path: Path
) -> None:
    plain = prepared(options)[0].splits["train"]
    marked = tmp_path / "marked.jsonl"
    marked.write_bytes(b"\xef\xbb\xbf" + (tmp_path / "train.jsonl").read_bytes())
    other = prepared(options | {"train": Source(path=str(marked))}, name="other")[0].splits["train"]
    assert other.file_sha256 != plain.file_sha256
    assert (other.records_digest, other.tokens_digest) == (
        plain.records_digest,
        plain.tokens_digest,
    )


def test_one_source_is_divided_and_known_to_hold_test_records(
    prepared: Prepared, write_jsonl: Write
) -> None:
    source = write_jsonl("all.jsonl", *map(pair, range(100)))
    shares = SplitShares(validation=0.2, test=0.2)
    manifest, out = prepared({"source": Source(path=source), "split": shares, "max_length": 64})
    train, validation, test = manifest.splits["train"], manifest.splits["validation"], manifest.test
    assert test is not None
    assert train.records + validation.records + (test.records or 0) == 100
    assert (train.source, validation.source, test.source) == (source, source, source)
    assert train.holds_test_records
    assert not (out / "test").exists()


def test_a_source_without_a_test_share_holds_no_test_records(
    prepared: Prepared, write_jsonl: Write
) -> None:
    source = write_jsonl("all.jsonl", *map(pair, range(100)))
    shares = SplitShares(validation=0.2)
    manifest, _ = prepared({"source": Source(path=source), "split": shares, "max_length": 64})
    assert not manifest.splits["train"].holds_test_records
    assert manifest.test is None


def test_the_test_split_is_known_by_the_digest_of_its_ordered_records(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    path = write_jsonl("test.jsonl", pair(7), pair(8))
    manifest, out = prepared(options | {"test": SealedSource(path=path)})
    assert manifest.test == SealedManifest(
        source=path,
        records=2,
        records_digest=hashlib.sha256(digest(7) + digest(8)).hexdigest(),
        overlap_checked=True,
    )
    assert set(manifest.splits) == {"train", "validation"}
    assert not (out / "test").exists()


def test_a_test_split_given_by_digest_is_not_checkable(
    prepared: Prepared, options: dict[str, object]
) -> None:
    manifest, _ = prepared(options | {"test": SealedSource(sha256="ab" * 32)})
    assert manifest.test == SealedManifest(
        source=None, records=None, records_digest="ab" * 32, overlap_checked=False
    )
    assert "test: given by its digest; overlap with it is not checkable until it is opened" in (
        manifest.notices
    )


def test_a_file_that_stands_for_train_under_another_name_too_is_not_touched_again(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write, tmp_path: Path
) -> None:
    """Retention here is a link to the test file, which no later check may follow."""
    test = write_jsonl("test.jsonl", pair(7), pair(8))
    link = tmp_path / "general.jsonl"
    link.symlink_to(test)
    manifest, _ = prepared(
        options | {"test": SealedSource(path=test), "retention": RetentionSource(path=str(link))}
    )
    assert manifest.splits["retention"].holds_test_records
    assert not manifest.splits["train"].holds_test_records


def test_retention_has_a_format_and_names_of_its_own(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    path = write_jsonl("general.jsonl", {"body": "abc"})
    retention = RetentionSource(path=path, format="text", fields=FieldNames(text="body"))
    manifest, _ = prepared(options | {"retention": retention})
    split = manifest.splits["retention"]
    assert (split.format, split.input_tokens, split.target_tokens) == ("text", 4, 3)


def test_duplicates_are_dropped_from_train_on_record(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    validation = Source(path=write_jsonl("validation.jsonl", pair(2), pair(5)))
    manifest, _ = prepared(options | {"validation": validation, "duplicates": "drop_from_train"})
    train = manifest.splits["train"]
    assert (train.records_read, train.records) == (4, 3)
    assert train.dropped[0].record_numbers == (2,)
    assert manifest.overlaps[0] == Overlap(
        kind="exact", split="train", held_out="validation", count=1, record_numbers=(2,)
    )


def test_prompt_and_answer_go_through_a_chat_template_where_there_is_one(
    prepared: Prepared, options: dict[str, object], chatml: str
) -> None:
    manifest, out = prepared(options, template=chatml)
    assert manifest.uses_chat_template
    assert "train: rendered with the chat template" in manifest.notices
    # "answer 1" and its end token.
    assert PreparedSplit.open(out, "train").target_counts.tolist() == [9, 9, 9, 9]


def test_a_template_of_the_study_is_used_and_saved_with_the_tokenizer(
    prepared: Prepared, options: dict[str, object], chatml: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.jinja").write_text(chatml)
    plain, _ = prepared(options, name="plain")
    manifest, out = prepared(options | {"chat_template": str(tmp_path / "mine.jinja")})
    assert manifest.uses_chat_template
    assert (out / "tokenizer" / "chat_template.jinja").read_text() == chatml
    assert manifest.tokenizer_digest != plain.tokenizer_digest


def test_without_a_group_column_each_record_is_a_group_of_its_own(
    prepared: Prepared, options: dict[str, object]
) -> None:
    _, out = prepared(options)
    split = PreparedSplit.open(out, "train")
    assert (split.groups.dtype, split.groups.shape) == (np.uint8, (4, 32))
    assert split.groups.tolist() == split.digests.tolist()


def test_groups_are_known_by_the_digest_of_their_value(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    """24 records of eight authors, three each: no author is on both sides."""
    records = [pair(number) | {"author": f"author {number % 8}"} for number in range(24)]
    retention = RetentionSource(path=write_jsonl("general.jsonl", pair(50)))
    divided = {
        "source": Source(path=write_jsonl("all.jsonl", *records)),
        "split": SplitShares(validation=0.5, group="author"),
        "retention": retention,
        "max_length": 64,
    }
    _, out = prepared(divided)
    splits = [PreparedSplit.open(out, name) for name in ("train", "validation")]
    groups = [{bytes(row) for row in split.groups} for split in splits]
    authors = {hashlib.sha256(f"author {number}".encode()).digest() for number in range(8)}
    assert groups[0] | groups[1] == authors
    assert groups[0] & groups[1] == set()
    general = PreparedSplit.open(out, "retention")
    assert general.groups.tolist() == general.digests.tolist()


def test_packing_changes_nothing_that_is_prepared(
    prepared: Prepared, options: dict[str, object]
) -> None:
    """Rows are made when the stream is planned: the tokens are those of the records."""
    plain, _ = prepared(options)
    packed, _ = prepared(options | {"packing": Packing(row_tokens=64)}, name="packed")
    assert packed.splits == plain.splits


def test_a_template_that_writes_the_date_is_noticed(
    prepared: Prepared, options: dict[str, object], chatml: str
) -> None:
    manifest, _ = prepared(options, template="{{ strftime_now('%Y') }}" + chatml)
    assert manifest.notices[-1] == "the chat template writes the date of preparing into the prompts"


def test_the_vocabulary_is_as_large_as_the_largest_token_that_training_meets(
    prepared: Prepared, options: dict[str, object]
) -> None:
    """256 bytes, then <s>, </s>, <|im_start|>, <|im_end|>: the end token is 257."""
    assert prepared(options)[0].vocabulary_size == 258
    padded, _ = prepared(options, pad="<|im_end|>")
    assert (padded.pad_token_id, padded.vocabulary_size) == (259, 260)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"train": Source(hub="org/name")}, "data sets on a hub are not read yet"),
        (
            {"template_arguments": {"enable_thinking": False}},
            "no split is rendered with a chat template, so its settings cannot be honoured",
        ),
        (
            {"chat_template": "/nowhere/template.jinja"},
            "the chat template cannot be read as UTF-8 text",
        ),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused(
    prepared: Prepared, options: dict[str, object], more: dict[str, object], what: str
) -> None:
    assert fault_of(prepared, options | more) == what


def test_arguments_that_would_not_reach_the_template_are_refused(
    prepared: Prepared, options: dict[str, object], chatml: str
) -> None:
    more = {"template_arguments": {"add_generation_prompt": True}}
    what = "these names are taken by the rendering itself and would not reach the template"
    assert fault_of(prepared, options | more, template=chatml) == what


def test_conversations_need_a_template(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    other = [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}]
    chats = {
        "train": Source(path=write_jsonl("t.jsonl", {"messages": turns})),
        "validation": Source(path=write_jsonl("v.jsonl", {"messages": other})),
    }
    with pytest.raises(ModelError) as caught:
        prepared(options | chats)
    (fault,) = caught.value.faults
    assert fault.what == "conversations need a chat template, and the tokenizer has none"
    assert fault.got == "conversations in train and validation"


def test_splits_of_different_formats_are_refused(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write
) -> None:
    other = options | {"validation": Source(path=write_jsonl("v.jsonl", {"text": "t"}))}
    with pytest.raises(DataError) as caught:
        prepared(other)
    (fault,) = caught.value.faults
    assert fault.what == "the splits have different formats"
    assert fault.got == "train is prompt_answer, validation is text"


def test_faults_of_all_files_are_told_in_one_go(
    prepared: Prepared, options: dict[str, object], write_jsonl: Write, tmp_path: Path
) -> None:
    other = options | {
        "train": Source(path=write_jsonl("t.jsonl", {"prompt": "p"})),
        "validation": Source(path=str(tmp_path / "missing.jsonl")),
    }
    with pytest.raises(DataError) as caught:
        prepared(other)
    assert [fault.what for fault in caught.value.faults] == [
        "no record has the keys of any format",
        "the file does not exist",
    ]


def test_a_refusal_leaves_no_folder_behind(
    prepared: Prepared, options: dict[str, object], tmp_path: Path
) -> None:
    fault_of(prepared, options | {"overlong": "refuse", "max_length": 4})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model",
        "train.jsonl",
        "validation.jsonl",
    ]


def test_the_manifest_is_plain_json_with_its_version(
    prepared: Prepared, options: dict[str, object]
) -> None:
    _, out = prepared(options)
    assert json.loads((out / "manifest.json").read_text())["version"] == 2
