"""Loading a split with all its faults at once, and dividing one source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.data.options import FieldNames, FormatName, SplitShares
from sweeper.data.splits import LoadedSplit, SplitSource, divide, load_split
from sweeper.errors import DataError

Write = Callable[..., str]


def load(path: str, format: FormatName = "auto", group: str | None = None) -> LoadedSplit:  # noqa: A002
    source = SplitSource(
        name="train", path=Path(path), format=format, fields=FieldNames(), group=group
    )
    return load_split(source)


def pair(prompt: object, answer: object = "a", **more: object) -> dict[str, object]:
    return {"prompt": prompt, "answer": answer, **more}


def numbers(split: LoadedSplit) -> list[int]:
    return [record.place.record for record in split.records]


def prompts(split: LoadedSplit) -> set[str]:
    return {record.prompt for record in split.records}


# Case B04.
def test_answers_that_are_no_text_are_counted_by_kind(write_jsonl: Write) -> None:
    path = write_jsonl(
        "train.jsonl",
        {"prompt": "p"},
        pair("p", None),
        pair("p", ""),
        pair("p", 7),
        pair("p", {"x": 1}),
        pair("p", "good"),
        pair("p", " \n"),
    )
    with pytest.raises(DataError) as caught:
        load(path)
    assert [(fault.what, fault.got) for fault in caught.value.faults] == [
        ("the answer is missing", "record 1 (line 1)"),
        ("the answer is null", "record 2 (line 2)"),
        ("the answer is empty, in 2 records", "record 3 (line 3); record 7 (line 7)"),
        ("the answer is a number", "record 4 (line 4)"),
        ("the answer is an object", "record 5 (line 5)"),
    ]
    assert {fault.where for fault in caught.value.faults} == {path}


def test_the_format_that_was_chosen_and_the_columns_left_aside_are_told(
    write_jsonl: Write,
) -> None:
    split = load(write_jsonl("train.jsonl", pair("p", source="s"), pair("q", key="k")))
    assert split.notices == (
        "train: 2 records read as JSONL, format prompt_answer by its keys",
        "train: columns not read: key, source",
    )


def test_remarks_are_counted_with_the_first_records(write_jsonl: Write) -> None:
    ends_with_user = {
        "messages": [
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "v"},
        ]
    }
    whole = {"messages": ends_with_user["messages"][:2]}
    split = load(write_jsonl("train.jsonl", ends_with_user, whole, ends_with_user))
    assert split.notices[1] == (
        "train: turns after the last answer are left out, in 2 records (number 1, 3)"
    )


# Cases B01 and B10: neither mark nor key order nor surrounding white space is a difference.
@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbf{"prompt": "p", "answer": "a"}\n',
        b'{"answer": "a", "prompt": "p"}\n',
        b'[{"answer": " a", "prompt": "p\\n"}]',
        b'{"prompt": "p", "answer": "a", "note": "x"}\n',
    ],
)
def test_equal_records_have_equal_digests(
    write_jsonl: Write, write_bytes: Callable[[str, bytes], Path], content: bytes
) -> None:
    plain = load(write_jsonl("plain.jsonl", pair("p")))
    other = load(str(write_bytes("other.jsonl", content)))
    assert other.records[0].digest == plain.records[0].digest


def source_of(write_jsonl: Write, *records: object, group: str | None = None) -> LoadedSplit:
    return load(write_jsonl("all.jsonl", *records), group=group)


THOUSAND = [pair(f"question {number}") for number in range(1000)]
SHARES = SplitShares(validation=0.2, test=0.1)


def test_shares_are_met_about(write_jsonl: Write) -> None:
    """Standard deviations: 12.6 records for a share of 0.2, 9.5 for 0.1; four of them allowed."""
    splits = divide(source_of(write_jsonl, *THOUSAND), SHARES)
    assert list(splits) == ["train", "validation", "test"]
    assert abs(len(splits["validation"].records) - 200) <= 50
    assert abs(len(splits["test"].records) - 100) <= 38
    assert sum(len(split.records) for split in splits.values()) == 1000


def test_shares_are_met_about_by_groups_of_many_prompts_too(write_jsonl: Write) -> None:
    """1000 groups of 10; standard deviations of 126 and 95 records, four of them allowed."""
    records = [
        pair(f"question {group} {number}", group=group)
        for group in range(1000)
        for number in range(10)
    ]
    splits = divide(source_of(write_jsonl, *records, group="group"), SHARES)
    assert abs(len(splits["validation"].records) - 2000) <= 506
    assert abs(len(splits["test"].records) - 1000) <= 380


def test_without_a_share_there_is_no_test_split(write_jsonl: Write) -> None:
    splits = divide(source_of(write_jsonl, *THOUSAND), SplitShares(validation=0.2))
    assert list(splits) == ["train", "validation"]


def test_where_a_record_goes_does_not_depend_on_the_order_of_the_file(write_jsonl: Write) -> None:
    one = divide(source_of(write_jsonl, *THOUSAND), SHARES)
    two = divide(source_of(write_jsonl, *reversed(THOUSAND)), SHARES)
    assert prompts(one["test"]) == prompts(two["test"])
    assert prompts(one["validation"]) == prompts(two["validation"])


def test_another_validation_share_leaves_the_test_split_alone(write_jsonl: Write) -> None:
    loaded = source_of(write_jsonl, *THOUSAND)
    narrow = divide(loaded, SHARES)
    wide = divide(loaded, SplitShares(validation=0.4, test=0.1))
    assert numbers(narrow["test"]) == numbers(wide["test"])
    assert set(numbers(narrow["validation"])) < set(numbers(wide["validation"]))


def test_equal_prompts_stay_together(write_jsonl: Write) -> None:
    asked_thrice = [
        pair(prompt, f"answer {number}")
        for number in range(200)
        for prompt in (f"Question {number}?", f"question  {number}? ", f"QUESTION {number}?")
    ]
    splits = divide(source_of(write_jsonl, *asked_thrice), SHARES)
    assert prompts(splits["train"]).isdisjoint(prompts(splits["validation"]))
    assert prompts(splits["train"]).isdisjoint(prompts(splits["test"]))
    assert prompts(splits["validation"]).isdisjoint(prompts(splits["test"]))
    assert len(splits["validation"].records) % 3 == 0


def test_equal_groups_stay_together_even_through_a_shared_prompt(write_jsonl: Write) -> None:
    """Groups g and g + 1 share a prompt for even g, so they travel in pairs of four records."""
    records = [
        pair(prompt, f"{group} {prompt}", group=group)
        for group in range(200)
        for prompt in (f"own {group}", f"shared {group // 2}")
    ]
    splits = divide(source_of(write_jsonl, *records, group="group"), SHARES)
    assert [len(split.records) % 4 for split in splits.values()] == [0, 0, 0]
    pairs = [
        {int(record.group or "") // 2 for record in split.records} for split in splits.values()
    ]
    assert pairs[0].isdisjoint(pairs[1])
    assert pairs[0].isdisjoint(pairs[2])
    assert pairs[1].isdisjoint(pairs[2])


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({}, "the group column `id` is null"),
        ({"id": ""}, "the group column `id` is empty"),
        ({"id": 1.5}, "the group column `id` is a number"),
        ({"id": True}, "the group column `id` is a boolean"),
    ],
)
def test_a_record_without_its_group_is_refused(
    write_jsonl: Write, value: dict[str, object], what: str
) -> None:
    with pytest.raises(DataError) as caught:
        source_of(write_jsonl, pair("p", id=1), pair("q", **value), group="id")
    assert caught.value.faults[0].what == what


def test_a_division_that_leaves_a_split_empty_is_refused(write_jsonl: Write) -> None:
    loaded = source_of(write_jsonl, pair("p", "a"), pair("P ", "b"))
    with pytest.raises(DataError) as caught:
        divide(loaded, SHARES)
    (fault,) = caught.value.faults
    assert fault.what.startswith("dividing the source leaves no records for ")
    assert fault.got == "2 records in 1 bundle of equal prompts"


def test_the_division_is_told_with_its_counts(write_jsonl: Write) -> None:
    splits = divide(source_of(write_jsonl, *THOUSAND), SHARES)
    sizes = ", ".join(f"{len(split.records)} for {name}" for name, split in splits.items())
    assert splits["train"].notices[-1] == f"source: divided by hash of the prompt: {sizes}"
