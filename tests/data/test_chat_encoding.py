"""Chat templates, with and without the generation keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from sweeper.data.chat_encoding import ChatEncoder
from sweeper.data.encoding import Encoded
from sweeper.data.problems import BadRecord
from sweeper.data.record import Chat, JsonValue, PromptAnswer, Role, TextRecord, Turn
from sweeper.data.tokenizer import Tokenizer

TokenizerOf = Callable[..., Tokenizer]
Supervise = Literal["answer", "last_answer", "all"]

LOOP = "{% for m in messages %}"
ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
GENERATION = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}" + ASK
)
END_OUTSIDE = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}" + ASK
)
WITH_BOS = (
    "{{ '<s>' }}"
    + LOOP
    + "{{ m.role[0] + ':' + m.content + '</s>' }}{% endfor %}"
    + ("{% if add_generation_prompt %}{{ 'a:' }}{% endif %}")
)
INSTRUCT = (
    LOOP + "{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}"
)
NO_GENERATION_PROMPT = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
)
NO_END = (
    LOOP
    + "{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    + ("{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")
)
THINKS_ONLY_WHEN_ASKED = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}"
)
THINKS_IN_THE_LAST_ANSWER = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' and loop.last %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{{ m.content + '<|im_end|>\n' }}{% endfor %}" + ASK
)
REWRITES_EARLIER = (
    LOOP + "{{ '<|im_start|>' + m.role + '\n' }}"
    "{{ (m.content if loop.last or m.role == 'user' else '...') + '<|im_end|>\n' }}{% endfor %}"
    + ASK
)
STRICT = (
    LOOP
    + "{% if m.role == 'system' %}{{ raise_exception('System role not supported!') }}{% endif %}"
    "{{ m.role + m.content + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}"
)
LEAVES_OUT = LOOP + "{% if m.role == 'user' %}{{ m.content + '</s>' }}{% endif %}{% endfor %}"

SHORT = Chat(
    turns=(
        Turn(role=Role.USER, content="Capital of France?"),
        Turn(role=Role.ASSISTANT, content="Paris"),
    )
)
LONG = Chat(
    turns=(
        Turn(role=Role.SYSTEM, content="Be brief."),
        Turn(role=Role.USER, content="1+1?"),
        Turn(role=Role.ASSISTANT, content="two"),
        Turn(role=Role.USER, content="2+2?"),
        Turn(role=Role.ASSISTANT, content="four"),
    )
)


def encode(
    tokenizer: Tokenizer,
    record: TextRecord,
    supervise: Supervise = "answer",
    arguments: dict[str, JsonValue] | None = None,
) -> Encoded:
    return ChatEncoder.of(tokenizer, supervise, arguments or {}).encode(record)


def supervised(tokenizer: Tokenizer, encoded: Encoded) -> list[str]:
    """Returns the texts of the runs of supervised tokens."""
    marks = "".join("x" if target else " " for target in encoded.supervised)
    pieces: list[str] = []
    start = 0
    for run in marks.split(" "):
        if run:
            ids = encoded.token_ids[start : start + len(run)]
            pieces.append(tokenizer.wrapped.decode(list(ids)))
        start += len(run) + 1
    return pieces


def messages(chat: Chat) -> list[dict[str, JsonValue]]:
    return [turn.as_message() for turn in chat.turns]


# Row 28: the stock template has no generation keyword, and its mask was all zeros.
@pytest.mark.parametrize("template", ["stock", GENERATION, END_OUTSIDE])
def test_every_answer_and_its_end_token_are_targets(
    tokenizer_of: TokenizerOf, chatml: str, template: str
) -> None:
    tokenizer = tokenizer_of(template=chatml if template == "stock" else template)
    encoded = encode(tokenizer, LONG)
    assert supervised(tokenizer, encoded) == ["two<|im_end|>", "four<|im_end|>"]
    assert encoded.has_end


@pytest.mark.parametrize("record", [SHORT, LONG])
def test_the_mask_agrees_with_what_the_generation_keyword_marks(
    tokenizer_of: TokenizerOf, record: Chat
) -> None:
    tokenizer = tokenizer_of(template=GENERATION)
    reference = tokenizer.wrapped.apply_chat_template(
        messages(record), return_dict=True, return_assistant_tokens_mask=True
    )
    encoded = encode(tokenizer, record)
    assert list(encoded.token_ids) == reference["input_ids"]
    assert [int(target) for target in encoded.supervised] == reference["assistant_masks"]


def test_the_tokens_are_those_that_transformers_makes(
    tokenizer_of: TokenizerOf, chatml: str
) -> None:
    tokenizer = tokenizer_of(template=chatml, adds_bos=True)
    reference = tokenizer.wrapped.apply_chat_template(messages(LONG), return_dict=True)
    assert list(encode(tokenizer, LONG).token_ids) == reference["input_ids"]


def test_what_stands_before_the_answer_is_what_generation_sees(
    tokenizer_of: TokenizerOf, chatml: str
) -> None:
    tokenizer = tokenizer_of(template=chatml)
    prompt = tokenizer.wrapped.apply_chat_template(
        messages(SHORT)[:1], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    encoded = encode(tokenizer, SHORT)
    assert list(encoded.token_ids[: len(prompt)]) == prompt
    assert encoded.supervised.index(True) == len(prompt)


def test_an_answer_that_the_template_rewrites_is_learned_as_it_is_written(
    tokenizer_of: TokenizerOf, chatml: str
) -> None:
    loud = chatml.replace("message['content']", "message['content'].upper()")
    tokenizer = tokenizer_of(template=loud)
    assert supervised(tokenizer, encode(tokenizer, LONG)) == ["TWO<|im_end|>", "FOUR<|im_end|>"]


def test_last_answer_supervises_only_that(tokenizer_of: TokenizerOf, chatml: str) -> None:
    tokenizer = tokenizer_of(template=chatml)
    encoded = encode(tokenizer, LONG, "last_answer")
    assert supervised(tokenizer, encoded) == ["four<|im_end|>"]


def test_all_supervises_every_token_but_the_first(tokenizer_of: TokenizerOf, chatml: str) -> None:
    encoded = encode(tokenizer_of(template=chatml), SHORT, "all")
    assert encoded.supervised == (False, *[True] * (len(encoded.token_ids) - 1))
    assert encoded.has_end


def test_tool_turns_are_no_targets(tokenizer_of: TokenizerOf, chatml: str) -> None:
    tokenizer = tokenizer_of(template=chatml)
    record = Chat(
        turns=(
            Turn(role=Role.USER, content="weather?"),
            Turn(role=Role.ASSISTANT, content="call"),
            Turn(role=Role.TOOL, content="rain"),
            Turn(role=Role.ASSISTANT, content="It rains."),
        )
    )
    assert supervised(tokenizer, encode(tokenizer, record)) == [
        "call<|im_end|>",
        "It rains.<|im_end|>",
    ]


# Row 30.
def test_a_begin_token_in_the_template_is_not_doubled(tokenizer_of: TokenizerOf) -> None:
    tokenizer = tokenizer_of(template=WITH_BOS, adds_bos=True)
    encoded = encode(tokenizer, SHORT)
    bos = tokenizer.wrapped.bos_token_id
    assert encoded.token_ids.count(bos) == 1
    assert encoded.token_ids[0] == bos
    assert supervised(tokenizer, encoded) == ["Paris</s>"]


def test_a_prompt_with_an_answer_is_a_conversation_of_two_turns(
    tokenizer_of: TokenizerOf, chatml: str
) -> None:
    tokenizer = tokenizer_of(template=chatml)
    record = PromptAnswer(prompt="Capital of France?", answer="Paris")
    assert encode(tokenizer, record) == encode(tokenizer, SHORT)


def test_the_space_before_an_answer_is_part_of_it_where_generation_writes_it(
    tokenizer_of: TokenizerOf,
) -> None:
    tokenizer = tokenizer_of(template=INSTRUCT)
    assert supervised(tokenizer, encode(tokenizer, SHORT)) == [" Paris</s>"]


# Row 31: the assistant's header counted as part of the completion.
def test_a_header_that_only_the_answer_brings_is_no_target(tokenizer_of: TokenizerOf) -> None:
    tokenizer = tokenizer_of(template=NO_GENERATION_PROMPT)
    assert supervised(tokenizer, encode(tokenizer, SHORT)) == ["Paris<|im_end|>"]


# Row 31: the generation prompt differs between prompt and full rendering.
def test_a_prompt_that_is_no_beginning_of_the_whole_is_refused(tokenizer_of: TokenizerOf) -> None:
    with pytest.raises(BadRecord) as caught:
        encode(tokenizer_of(template=THINKS_ONLY_WHEN_ASKED), SHORT)
    assert caught.value.what.startswith("the chat template writes the turns before an answer")
    assert caught.value.detail == "turn 2"


def test_what_a_template_adds_to_the_last_answer_only_is_learned_there(
    tokenizer_of: TokenizerOf,
) -> None:
    tokenizer = tokenizer_of(template=THINKS_IN_THE_LAST_ANSWER)
    assert supervised(tokenizer, encode(tokenizer, LONG)) == [
        "two<|im_end|>",
        "<think>\n\n</think>\n\nfour<|im_end|>",
    ]


def test_an_earlier_answer_that_cannot_be_found_again_is_refused(
    tokenizer_of: TokenizerOf,
) -> None:
    tokenizer = tokenizer_of(template=REWRITES_EARLIER)
    with pytest.raises(BadRecord) as caught:
        encode(tokenizer, LONG)
    assert caught.value.detail == "turn 3"
    assert supervised(tokenizer, encode(tokenizer, LONG, "last_answer")) == ["four<|im_end|>"]


def test_a_template_without_an_end_token_is_noticed(tokenizer_of: TokenizerOf) -> None:
    tokenizer = tokenizer_of(template=NO_END)
    encoded = encode(tokenizer, SHORT)
    assert supervised(tokenizer, encoded) == ["Paris\n"]
    assert not encoded.has_end


def test_an_error_of_the_template_names_the_fault_of_the_record(tokenizer_of: TokenizerOf) -> None:
    with pytest.raises(BadRecord) as caught:
        encode(tokenizer_of(template=STRICT), LONG)
    assert caught.value.what == "the chat template fails: System role not supported!"


def test_a_template_that_leaves_the_answer_out_is_refused(tokenizer_of: TokenizerOf) -> None:
    with pytest.raises(BadRecord) as caught:
        encode(tokenizer_of(template=LEAVES_OUT), SHORT)
    assert caught.value.what == "the chat template leaves an answer out"


def test_arguments_of_the_study_reach_the_template(tokenizer_of: TokenizerOf) -> None:
    template = (
        LOOP
        + "{{ m.role + mark + m.content + '</s>' }}{% endfor %}"
        + ("{% if add_generation_prompt %}{{ 'assistant' + mark }}{% endif %}")
    )
    tokenizer = tokenizer_of(template=template)
    encoded = encode(tokenizer, SHORT, arguments={"mark": "=>"})
    whole = tokenizer.wrapped.decode(list(encoded.token_ids))
    assert whole == "user=>Capital of France?</s>assistant=>Paris</s>"


def test_tools_reach_the_template(tokenizer_of: TokenizerOf) -> None:
    template = "{% if tools %}{{ tools[0].name }}{% endif %}" + WITH_BOS
    tokenizer = tokenizer_of(template=template)
    record = Chat(turns=SHORT.turns, tools=({"name": "weather"},))
    assert tokenizer.wrapped.decode(list(encode(tokenizer, record).token_ids)).startswith("weather")
