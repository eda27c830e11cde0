"""From a record to tokens and the mask of its targets.

Plain text: every token but the first is a target, and so is the end token that is appended.
Prompt and answer without a chat template: joined by a line feed unless the prompt already ends in
white space; the answer's tokens and the end token are targets.
Chat templates: see `chat_encoding.py`.

What stands before an answer is tokenised exactly as it would be for generating that answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sweeper.data.record import PlainText, PromptAnswer, TextRecord
from sweeper.data.tokenizer import Tokenizer
from sweeper.errors import Fault, ModelError

Supervise = Literal["answer", "last_answer", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One record as tokens.

    Attributes:
        token_ids: `[tokens]`.
        supervised: `[tokens]`; position 0 never is a target.
        has_end: Its last target is an end token.
    """

    token_ids: tuple[int, ...]
    supervised: tuple[bool, ...]
    has_end: bool

    @property
    def targets(self) -> int:
        """Number of target tokens."""
        return sum(self.supervised)

    def cut(self, max_length: int) -> Encoded:
        """Returns the record with its end cut off behind `max_length` tokens."""
        if len(self.token_ids) <= max_length:
            return self
        return Encoded(
            token_ids=self.token_ids[:max_length],
            supervised=self.supervised[:max_length],
            has_end=False,
        )


class Encoder(Protocol):
    """Turns records of one split into tokens."""

    def encode(self, record: TextRecord) -> Encoded:
        """Returns the record as tokens.

        Raises:
            BadRecord: The chat template fails on it, or does not let its answers be told apart.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainEncoder:
    """Encodes plain text, and prompts with answers that no template joins."""

    tokenizer: Tokenizer
    leading: tuple[int, ...]
    eos_token_id: int
    supervise: Supervise

    @classmethod
    def of(cls, tokenizer: Tokenizer, supervise: Supervise) -> PlainEncoder:
        """Returns the encoder for a tokenizer.

        Raises:
            ModelError: The tokenizer has no end token, so no answer could learn to end.
        """
        eos_token_id = tokenizer.eos_token_id()
        if eos_token_id is None:
            raise ModelError(
                Fault(
                    what="the tokenizer has no end token (eos_token), which ends every answer",
                    where="model.path",
                    hint="Set eos_token in its tokenizer_config.json",
                )
            )
        return cls(
            tokenizer=tokenizer,
            leading=tokenizer.leading(),
            eos_token_id=eos_token_id,
            supervise=supervise,
        )

    def encode(self, record: TextRecord) -> Encoded:
        """See `Encoder`."""
        match record:
            case PlainText():
                return self._finished(self.tokenizer.ids(record.text), border=None)
            case PromptAnswer():
                prompt = record.prompt if record.prompt[-1:].isspace() else f"{record.prompt}\n"
                return self._prompt_answer(prompt, record.answer)
            case _:
                raise AssertionError("conversations need a chat template")

    def _prompt_answer(self, prompt: str, answer: str) -> Encoded:
        token_ids, (border,) = tokenise_parts(self.tokenizer, prompt + answer, (len(prompt),))
        return self._finished(token_ids, border=None if self.supervise == "all" else border)

    def _finished(self, token_ids: list[int], *, border: int | None) -> Encoded:
        """Adds what the tokenizer puts before a text, and the end token, each once.

        Args:
            border: Tokens of the prompt; None where everything is a target.
        """
        has_leading = tuple(token_ids[: len(self.leading)]) == self.leading
        leading = () if has_leading else self.leading
        ending = () if token_ids[-1:] == [self.eos_token_id] else (self.eos_token_id,)
        whole = (*leading, *token_ids, *ending)
        first = 1 if border is None else max(1, len(leading) + border)
        return Encoded(
            token_ids=whole,
            supervised=tuple(index >= first for index in range(len(whole))),
            has_end=True,
        )


def tokenise_parts(
    tokenizer: Tokenizer, text: str, cuts: Sequence[int]
) -> tuple[list[int], tuple[int, ...]]:
    """Returns the tokens of a text and how many of them lie before each cut.

    The text is tokenised as a whole where that agrees with tokenising what stands before each cut
    by itself, and in pieces where it does not: no token reaches over a cut.

    Args:
        cuts: Ascending positions in the text.
    """
    bounds = [0, *cuts, len(text)]
    pieces = [tokenizer.ids(text[begin:end]) for begin, end in itertools.pairwise(bounds)]
    joined = [token for piece in pieces for token in piece]
    whole = tokenizer.ids(text)
    if joined != whole:
        heads = [tokenizer.ids(text[:cut]) for cut in cuts]
        if all(whole[: len(head)] == head for head in heads):
            return whole, tuple(len(head) for head in heads)
    borders = [sum(len(piece) for piece in pieces[: index + 1]) for index in range(len(cuts))]
    return joined, tuple(borders)
