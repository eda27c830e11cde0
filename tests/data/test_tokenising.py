"""The policy on records that are too long. One byte is one token here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.data.chat_encoding import ChatEncoder
from sweeper.data.encoding import PlainEncoder
from sweeper.data.manifest import Dropped, DropReason
from sweeper.data.options import FieldNames
from sweeper.data.splits import LoadedSplit, SplitSource, load_split
from sweeper.data.tokenising import LengthPolicy, TokenisedSplit, tokenise
from sweeper.data.tokenizer import Tokenizer
from sweeper.errors import DataError, Fault

Write = Callable[..., str]
TokenizerOf = Callable[..., Tokenizer]


def pair(prompt_tokens: int, answer_tokens: int) -> dict[str, str]:
    """Returns a record whose prompt, line feed included, and answer have so many tokens."""
    return {"prompt": "p" * (prompt_tokens - 1), "answer": "a" * answer_tokens}


# Case C01: 70 prompt tokens and 5 of the answer do not fit in 64; of the second record exactly one
# answer token does; the third, with its end token, fills 64 exactly.
RECORDS = (pair(70, 5), pair(63, 5), pair(60, 3), pair(10, 5))


@pytest.fixture
def load(write_jsonl: Write) -> Callable[..., LoadedSplit]:
    def load(*records: dict[str, object]) -> LoadedSplit:
        path = Path(write_jsonl("train.jsonl", *records))
        return load_split(SplitSource(name="train", path=path, format="auto", fields=FieldNames()))

    return load


@pytest.fixture
def tokenised(
    load: Callable[..., LoadedSplit], tokenizer_of: TokenizerOf
) -> Callable[..., TokenisedSplit]:
    def run(*records: dict[str, object], policy: LengthPolicy) -> TokenisedSplit:
        return tokenise(load(*records), PlainEncoder.of(tokenizer_of(), "answer"), policy)

    return run


def lengths(split: TokenisedSplit) -> list[int]:
    return [len(record.token_ids) for record in split.records]


def targets(split: TokenisedSplit) -> list[int]:
    return [sum(record.supervised) for record in split.records]


def test_drop_leaves_out_every_record_that_is_too_long(
    tokenised: Callable[..., TokenisedSplit],
) -> None:
    split = tokenised(*RECORDS, policy=LengthPolicy(max_length=64, overlong="drop"))
    assert lengths(split) == [64, 16]
    assert split.dropped == (Dropped(reason=DropReason.OVERLONG, count=2, record_numbers=(1, 2)),)
    assert split.cut == 0
    dropped = "train: 2 records longer than 64 tokens dropped (number 1, 2)"
    assert split.notices == (
        f"{dropped}; raise data.max_length or shorten the prompt to keep them",
    )


# Rows 25 and 26: never a record of which nothing is learned.
def test_cut_keeps_records_that_have_a_target_left_and_drops_the_others(
    tokenised: Callable[..., TokenisedSplit],
) -> None:
    split = tokenised(*RECORDS, policy=LengthPolicy(max_length=64, overlong="cut"))
    assert lengths(split) == [64, 64, 16]
    assert targets(split) == [1, 4, 6]
    assert split.dropped == (Dropped(reason=DropReason.NO_TARGETS, count=1, record_numbers=(1,)),)
    assert split.cut == 1
    assert split.notices[1] == "train: 1 record cut off at 64 tokens"


# Row 25: prompt of 10, completion of 3, at most 8.
@pytest.mark.parametrize("overlong", ["drop", "cut"])
def test_a_split_without_any_target_is_refused_with_its_lengths(
    tokenised: Callable[..., TokenisedSplit], overlong: str
) -> None:
    with pytest.raises(DataError) as caught:
        tokenised(pair(10, 3), policy=LengthPolicy(max_length=8, overlong=overlong))  # type: ignore[arg-type]
    (fault,) = caught.value.faults
    assert fault.what == "no record of train has a target token within data.max_length: 8"
    assert fault.got == (
        "1 record; record 1 (line 1), for instance: 14 tokens, 10 of them before the first target"
    )


def test_refuse_names_the_records_with_length_and_prompt(
    tokenised: Callable[..., TokenisedSplit],
) -> None:
    with pytest.raises(DataError) as caught:
        tokenised(*RECORDS, policy=LengthPolicy(max_length=64, overlong="refuse"))
    (fault,) = caught.value.faults
    assert fault.what == ("the record is longer than data.max_length: 64 tokens, in 2 records")
    assert fault.got == (
        "record 1 (line 1), 76 tokens, 70 of them before the first target; "
        "record 2 (line 2), 69 tokens, 63 of them before the first target"
    )
    assert fault.hint is not None
    assert fault.hint.startswith("Raise data.max_length, shorten the prompts")


def test_refuse_accepts_a_split_in_which_all_records_fit(
    tokenised: Callable[..., TokenisedSplit],
) -> None:
    split = tokenised(*RECORDS[2:], policy=LengthPolicy(max_length=64, overlong="refuse"))
    assert lengths(split) == [64, 16]


def chat(*contents: str) -> dict[str, object]:
    roles = ("user", "assistant")
    turns = [{"role": roles[at % 2], "content": text} for at, text in enumerate(contents)]
    return {"messages": turns}


def test_a_template_that_fails_is_reported_once_with_the_records(
    load: Callable[..., LoadedSplit], tokenizer_of: TokenizerOf
) -> None:
    template = (
        "{% for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('No.') }}{% endif %}"
        "{{ m.content + '</s>' }}{% endfor %}"
    )
    encoder = ChatEncoder.of(tokenizer_of(template=template), "answer", {})
    split = load(chat("q", "a"), chat("bad", "a"), chat("q", "bad"))
    with pytest.raises(DataError) as caught:
        tokenise(split, encoder, LengthPolicy(max_length=64, overlong="drop"))
    assert caught.value.faults == (
        Fault(
            what="the chat template fails: No, in 2 records",
            where=str(split.source.path),
            got="record 2 (line 2); record 3 (line 3)",
            hint="Mend the record, or give another data.chat_template",
        ),
    )


def test_records_without_an_end_token_are_counted(
    load: Callable[..., LoadedSplit], tokenizer_of: TokenizerOf
) -> None:
    template = "{% for m in messages %}{{ m.role + ' ' + m.content + ' ' }}{% endfor %}"
    encoder = ChatEncoder.of(tokenizer_of(template=template), "answer", {})
    split = tokenise(load(chat("q", "a")), encoder, LengthPolicy(max_length=64, overlong="drop"))
    why = "the chat template writes none, so the model does not learn to stop"
    assert split.notices == (f"train: 1 record without an end token: {why}",)
