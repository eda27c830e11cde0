"""Tokenizers small enough to follow by hand, and files to read.

In the byte tokenizer every byte of a text is one token, so counts are lengths; merges are added
where a test needs a token that could reach over a border.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sweeper.data.tokenizer import Tokenizer as OurTokenizer

SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(
    *,
    merges: Sequence[tuple[str, str]] = (),
    adds_bos: bool = False,
    eos: str | None = "</s>",
    pad: str | None = None,
    template: str | None = None,
) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: index for index, character in enumerate(alphabet)}
    vocabulary |= {a + b: 256 + index for index, (a, b) in enumerate(merges)}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    if adds_bos:
        bos = raw.token_to_id("<s>")
        raw.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", bos)]
        )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token=eos, pad_token=pad
    )
    wrapped.chat_template = template
    return wrapped


def model_folder(folder: Path, **options: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    byte_tokenizer(**options).save_pretrained(folder)  # type: ignore[arg-type]
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


@pytest.fixture
def tokenizer_of() -> Callable[..., OurTokenizer]:
    """Returns a factory of byte tokenizers; see `byte_tokenizer`."""
    return lambda **options: OurTokenizer(byte_tokenizer(**options))


@pytest.fixture
def model_of(tmp_path: Path) -> Callable[..., str]:
    """Returns a factory of model folders with a byte tokenizer; gives their paths."""
    return lambda name="model", **options: str(model_folder(tmp_path / name, **options))


@pytest.fixture(scope="session")
def build_model() -> Callable[..., Path]:
    """Returns `model_folder`."""
    return model_folder


@pytest.fixture
def chatml() -> str:
    return CHATML


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., str]:
    """Returns a writer of JSONL files in the test's folder; gives their paths."""

    def write(name: str, *records: object) -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return str(path)

    return write


@pytest.fixture
def write_bytes(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture(scope="session")
def run_child() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Returns a runner of `python ARGUMENTS` without a network."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
            timeout=120,
        )

    return run
