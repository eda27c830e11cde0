"""Conversations through a chat template, with the answers found by rendering prefixes.

Templates that mark answers with `{% generation %}` and those that do not are treated alike. For
the answer in turn k the turns before it are rendered with the generation prompt: that is what the
model sees when it generates the answer, so it must be how the whole rendering begins. The answer
is what the template writes from there on for turn k, up to and with its end token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.data.encoding import Encoded, Supervise, tokenise_parts
from sweeper.data.problems import BadRecord
from sweeper.data.record import Chat, JsonValue, PromptAnswer, Role, TextRecord, Turn
from sweeper.data.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEncoder:
    """Encodes conversations, and prompts with answers as conversations of two turns.

    Attributes:
        arguments: The study's `template_arguments`.
        added_tokens: Texts of the tokenizer's added tokens, among them the end tokens.
    """

    tokenizer: Tokenizer
    arguments: Mapping[str, JsonValue]
    supervise: Supervise
    added_tokens: tuple[str, ...]

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, supervise: Supervise, arguments: Mapping[str, JsonValue]
    ) -> ChatEncoder:
        """Returns the encoder for a tokenizer that has a template."""
        assert tokenizer.has_template()
        return cls(
            tokenizer=tokenizer,
            arguments=arguments,
            supervise=supervise,
            added_tokens=tokenizer.added_tokens(),
        )

    def encode(self, record: TextRecord) -> Encoded:
        """See `encoding.Encoder`."""
        chat = _as_chat(record)
        text = self._render(chat, len(chat.turns))
        spans = [] if self.supervise == "all" else self._answers(chat, text)
        cuts = [cut for span in spans for cut in span]
        token_ids, borders = tokenise_parts(self.tokenizer, text, cuts)
        supervised = [self.supervise == "all"] * len(token_ids)
        for begin, end in zip(borders[::2], borders[1::2], strict=True):
            supervised[begin:end] = [True] * (end - begin)
        supervised[:1] = [False] * len(supervised[:1])
        last = text[spans[-1][0] : spans[-1][1]] if spans else text.rstrip()
        return Encoded(
            token_ids=tuple(token_ids), supervised=tuple(supervised), has_end=self._has_end(last)
        )

    def _has_end(self, text: str) -> bool:
        return any(text.endswith(token) for token in self.added_tokens)

    def _answers(self, chat: Chat, text: str) -> list[tuple[int, int]]:
        """Returns where each supervised answer begins and ends in the rendered text."""
        answers = [at for at, turn in enumerate(chat.turns) if turn.role is Role.ASSISTANT]
        chosen = answers[-1:] if self.supervise == "last_answer" else answers
        return [self._answer(chat, at, text) for at in chosen]

    def _answer(self, chat: Chat, at: int, text: str) -> tuple[int, int]:
        before = self._render(chat, at, generation_prompt=True)
        detail = f"turn {at + 1}"
        if not text.startswith(before):
            raise BadRecord(
                "the chat template writes the turns before an answer otherwise when it asks for "
                "the answer than when the answer is there",
                detail=detail,
                expected="the one to begin like the other",
                hint="Set data.template_arguments so that both agree, or data.chat_template",
            )
        end = self._end(chat, at, text, len(before))
        begin = self._begin(chat, at, text[len(before) : end], before) + len(before)
        if not text[begin:end].strip():
            raise BadRecord("the chat template leaves an answer out", detail=detail)
        return begin, end

    def _begin(self, chat: Chat, at: int, span: str, before: str) -> int:
        """Returns how much of the span is a header that should have been in the prompt.

        A template without a generation prompt writes the assistant's header only with its answer;
        the header is no part of the answer.
        """
        content = chat.turns[at].content.strip()
        if not content or before != self._render(chat, at):
            return 0
        found = max(span.find(content), 0)
        return found if span[:found].strip() else 0

    def _end(self, chat: Chat, at: int, text: str, begin: int) -> int:
        """Returns where the answer ends, its end token included, white space after that not."""
        if at + 1 == len(chat.turns):
            return self._without_space(text, begin, len(text))
        upto = self._render(chat, at + 1)
        if len(upto) > begin and text.startswith(upto):
            return self._without_space(text, begin, len(upto))
        return self._end_by_content(chat.turns[at], text, begin, detail=f"turn {at + 1}")

    def _without_space(self, text: str, begin: int, end: int) -> int:
        stripped = text[begin:end].rstrip()
        return begin + len(stripped) if self._has_end(stripped) else end

    def _end_by_content(self, turn: Turn, text: str, begin: int, *, detail: str) -> int:
        """Returns the end of an earlier answer that the template writes otherwise than a last one.

        Templates of reasoning models drop the thoughts of earlier turns, for instance.
        """
        for content in (turn.content, turn.content.strip()):
            if content.strip() and text.startswith(content, begin):
                end = begin + len(content)
                tokens = "|".join(re.escape(token) for token in self.added_tokens)
                ending = re.compile(rf"\s*(?:{tokens})").match(text, end) if tokens else None
                return ending.end() if ending else end
        raise BadRecord(
            "the chat template does not let an earlier answer be told from what follows it",
            detail=detail,
            hint="Set data.supervise: last_answer, or give another data.chat_template",
        )

    def _render(self, chat: Chat, turns: int, *, generation_prompt: bool = False) -> str:
        messages = [turn.as_message() for turn in chat.turns[:turns]]
        try:
            return self.tokenizer.render(
                messages,
                tools=chat.tools,
                generation_prompt=generation_prompt,
                arguments=self.arguments,
            )
        except Exception as error:  # a template is foreign code and may raise anything
            raise BadRecord(
                f"the chat template fails: {_reason(error)}",
                detail=None if turns == len(chat.turns) else f"in the turns before {turns + 1}",
                hint="Mend the record, or give another data.chat_template",
            ) from error


def _as_chat(record: TextRecord) -> Chat:
    match record:
        case Chat():
            return record
        case PromptAnswer():
            turns: Sequence[Turn] = (
                Turn(role=Role.USER, content=record.prompt),
                Turn(role=Role.ASSISTANT, content=record.answer),
            )
            return Chat(turns=tuple(turns))
        case _:
            raise AssertionError("plain text has no turns")


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
