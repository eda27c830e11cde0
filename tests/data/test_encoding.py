"""Plain text and prompt/answer as tokens; one byte is one token here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sweeper.data.encoding import Encoded, PlainEncoder, tokenise_parts
from sweeper.data.record import PlainText, PromptAnswer, TextRecord
from sweeper.data.tokenizer import Tokenizer
from sweeper.errors import ModelError

TokenizerOf = Callable[..., Tokenizer]
Supervise = Literal["answer", "last_answer", "all"]


def encode(
    tokenizer: Tokenizer, record: TextRecord, supervise: Supervise = "answer"
) -> tuple[str, str, Encoded]:
    """Returns all tokens and the supervised ones as text, and the encoded record."""
    encoded = PlainEncoder.of(tokenizer, supervise).encode(record)
    kept = [
        token for token, target in zip(encoded.token_ids, encoded.supervised, strict=True) if target
    ]
    decode = tokenizer.wrapped.decode
    return decode(list(encoded.token_ids)), decode(kept), encoded


# R27: 12 supervised tokens are 11 targets, four such records 44.
def test_every_token_of_a_text_but_the_first_is_a_target(tokenizer_of: TokenizerOf) -> None:
    everything, targets, encoded = encode(tokenizer_of(), PlainText(text="eleven byte"))
    assert (everything, targets) == ("eleven byte</s>", "leven byte</s>")
    assert len(encoded.token_ids) == 12
    assert encoded.targets == 11


def test_after_a_begin_token_the_whole_text_is_a_target(tokenizer_of: TokenizerOf) -> None:
    everything, targets, _ = encode(tokenizer_of(adds_bos=True), PlainText(text="abc"))
    assert (everything, targets) == ("<s>abc</s>", "abc</s>")


def test_answer_and_end_token_are_the_targets_of_a_prompt(tokenizer_of: TokenizerOf) -> None:
    everything, targets, encoded = encode(tokenizer_of(), PromptAnswer(prompt="Q?", answer="A."))
    assert (everything, targets) == ("Q?\nA.</s>", "A.</s>")
    assert encoded.supervised == (False, False, False, True, True, True)
    assert encoded.has_end


@pytest.mark.parametrize("prompt", ["Q: ", "Q:\n", "Q:\t"])
def test_a_prompt_that_ends_in_white_space_gets_no_line_feed(
    tokenizer_of: TokenizerOf, prompt: str
) -> None:
    everything, targets, _ = encode(tokenizer_of(), PromptAnswer(prompt=prompt, answer="A"))
    assert (everything, targets) == (f"{prompt}A</s>", "A</s>")


def test_supervise_all_makes_the_prompt_a_target_too(tokenizer_of: TokenizerOf) -> None:
    record = PromptAnswer(prompt="Q?", answer="A")
    assert encode(tokenizer_of(), record, "all")[1] == "?\nA</s>"
    assert encode(tokenizer_of(adds_bos=True), record, "all")[1] == "Q?\nA</s>"


# Row 30.
@pytest.mark.parametrize("prompt", ["Q?", "<s>Q?"])
def test_there_is_exactly_one_begin_token(tokenizer_of: TokenizerOf, prompt: str) -> None:
    everything, targets, _ = encode(
        tokenizer_of(adds_bos=True), PromptAnswer(prompt=prompt, answer="A")
    )
    assert (everything, targets) == ("<s>Q?\nA</s>", "A</s>")


def test_a_one_byte_prompt_behind_a_begin_token_is_no_target(tokenizer_of: TokenizerOf) -> None:
    _, targets, encoded = encode(tokenizer_of(adds_bos=True), PromptAnswer(prompt="\n", answer="A"))
    assert targets == "A</s>"
    assert encoded.supervised == (False, False, True, True)


def test_a_tokenizer_without_a_begin_token_gets_none(tokenizer_of: TokenizerOf) -> None:
    assert encode(tokenizer_of(), PromptAnswer(prompt="Q", answer="A"))[0] == "Q\nA</s>"


def test_an_end_token_that_the_answer_brings_is_not_doubled(tokenizer_of: TokenizerOf) -> None:
    everything, targets, _ = encode(tokenizer_of(), PromptAnswer(prompt="Q", answer="A</s>"))
    assert (everything, targets) == ("Q\nA</s>", "A</s>")


# C06 and row 29: padding with the end token must not cost the real one its place.
def test_the_end_token_is_a_target_where_it_is_the_padding_token_too(
    tokenizer_of: TokenizerOf,
) -> None:
    tokenizer = tokenizer_of(pad="</s>")
    assert tokenizer.pad_token_id() == tokenizer.eos_token_id()
    assert encode(tokenizer, PromptAnswer(prompt="Q", answer="a b"))[1] == "a b</s>"
    assert encode(tokenizer, PromptAnswer(prompt="Q", answer="a"))[1] == "a</s>"


def test_a_tokenizer_without_an_end_token_is_refused(tokenizer_of: TokenizerOf) -> None:
    with pytest.raises(ModelError) as caught:
        PlainEncoder.of(tokenizer_of(eos=None), "answer")
    assert caught.value.faults[0].what.startswith("the tokenizer has no end token")


def test_a_token_that_would_reach_over_the_border_is_not_made(tokenizer_of: TokenizerOf) -> None:
    tokenizer = tokenizer_of(merges=[("\u010a", "\u010a")])  # \n\n as one token
    assert len(tokenizer.ids("Q\n\nA")) == 3
    _, targets, encoded = encode(tokenizer, PromptAnswer(prompt="Q\n", answer="\nA"))
    assert targets == "\nA</s>"
    prompt = tuple(tokenizer.ids("Q\n"))
    assert encoded.token_ids[: len(prompt)] == prompt


def metaspace_tokenizer() -> Tokenizer:
    """Like SentencePiece: puts a space before a text, so that pieces differ from the whole."""
    vocabulary = {"\u2581": 0, "a": 1, "b": 2, "\u2581a": 3, "\u2581b": 4}
    merges = [("\u2581", "a"), ("\u2581", "b")]
    raw = RawTokenizer(models.BPE(vocab=vocabulary, merges=merges))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    raw.decoder = decoders.Metaspace(prepend_scheme="always")
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=raw))


def test_the_whole_is_kept_where_it_begins_like_the_prompt_alone() -> None:
    # "\u2581a b" as generation goes on, and not "\u2581a \u2581b", which pieces would give.
    assert tokenise_parts(metaspace_tokenizer(), "ab", [1]) == ([3, 2], (1,))


def test_pieces_are_taken_where_the_whole_begins_otherwise() -> None:
    # The whole is "\u2581a \u2581b"; a cut behind the space leaves "\u2581a \u2581" before it.
    assert tokenise_parts(metaspace_tokenizer(), "a b", [2]) == ([3, 0, 4], (2,))


def test_borders_of_several_cuts_count_tokens(tokenizer_of: TokenizerOf) -> None:
    tokenizer = tokenizer_of()
    token_ids, borders = tokenise_parts(tokenizer, "abcdef", [0, 2, 5])
    assert token_ids == tokenizer.ids("abcdef")
    assert borders == (0, 2, 5)


# Row 27.
def test_a_cut_takes_tokens_and_mask_from_the_end() -> None:
    encoded = Encoded(
        token_ids=(5, 6, 7, 8, 9), supervised=(False, False, True, True, True), has_end=True
    )
    cut = encoded.cut(4)
    assert cut.token_ids == (5, 6, 7, 8)
    assert cut.supervised == (False, False, True, True)
    assert not cut.has_end


def test_a_record_that_fits_is_not_cut() -> None:
    encoded = Encoded(token_ids=(5, 6), supervised=(False, True), has_end=True)
    assert encoded.cut(2) == encoded
