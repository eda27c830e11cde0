"""The quickstart's data and the committed base model, as their scripts promise them."""

import importlib
import importlib.util
import json
import math
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "studies/models/primer-1m"
CARD = (MODEL / "README.md").read_text("utf-8") if MODEL.is_dir() else ""
SPLITS = ("qa-train", "qa-validation", "qa-test")

needs_corpus = pytest.mark.skipif(
    importlib.util.find_spec("chatterbot_corpus") is None,
    reason="chatterbot-corpus is not installed (pip install sweeper[examples])",
)
needs_model = pytest.mark.skipif(
    not MODEL.is_dir(), reason="studies/models/primer-1m is not in this checkout"
)


@pytest.fixture(scope="module")
def scripts_on_path() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield


@pytest.fixture
def quickstart(scripts_on_path: None) -> ModuleType:
    return importlib.import_module("quickstart_data")


@pytest.fixture
def corpus(scripts_on_path: None) -> ModuleType:
    return importlib.import_module("primer_corpus")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError("a test tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def write_quickstart(module: ModuleType, folder: Path, patch: pytest.MonkeyPatch) -> int:
    patch.setattr(sys, "argv", ["quickstart_data.py", "--output", str(folder)])
    status: int = module.main()
    return status


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def keys(module: ModuleType, path: Path) -> list[str]:
    return [module.split_key(record["prompt"]) for record in read(path)]


def stated(figure: str) -> float:
    row = next(line for line in CARD.splitlines() if figure in line)
    return float(row.split("|")[2].strip(" *"))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("prompt", "split"),
    [("What is AI?", "train"), ("You sound like Data", "test"), ("When do you die", "validation")],
)
def test_a_prompt_is_placed_by_the_last_decimal_digit_of_its_hash(
    quickstart: ModuleType, prompt: str, split: str
) -> None:
    """SHA-256 as a number: "what is ai?" ends in 9, the others in 0 (test) and 1 (validation)."""
    assert quickstart.split_of(prompt) == split


def test_prompts_that_differ_in_case_and_white_space_go_together(quickstart: ModuleType) -> None:
    assert quickstart.split_key(" What  is\nAI? ") == "what is ai?"


def test_the_first_short_answer_of_a_prompt_is_kept(quickstart: ModuleType) -> None:
    long = {"prompt": "Why?", "answer": "x" * 120}
    short = {"prompt": "why?", "answer": "x" * 119}
    later = {"prompt": "WHY?", "answer": "Because."}

    assert quickstart.first_answers(iter([long, short, later])) == [short]


@needs_corpus
def test_no_prompt_is_in_two_places(
    quickstart: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert write_quickstart(quickstart, tmp_path, monkeypatch) == 0

    prompts = [key for name in SPLITS for key in keys(quickstart, tmp_path / f"{name}.jsonl")]
    assert len(prompts) == len(set(prompts)) > 0


@needs_corpus
@pytest.mark.skipif(
    importlib.util.find_spec("chatterbot_corpus") is None
    or metadata.version("chatterbot-corpus") != "1.3.3",
    reason="the counts are those of chatterbot-corpus 1.3.3",
)
def test_the_splits_of_chatterbot_corpus_1_3_3_hold_535_58_and_65_records(
    quickstart: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quickstart(quickstart, tmp_path, monkeypatch)

    assert [len(read(tmp_path / f"{name}.jsonl")) for name in SPLITS] == [535, 58, 65]


@needs_corpus
def test_two_runs_write_the_same_bytes(
    quickstart: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quickstart(quickstart, tmp_path / "one", monkeypatch)
    write_quickstart(quickstart, tmp_path / "two", monkeypatch)

    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_a_missing_corpus_is_the_users_mistake_and_names_the_command_that_helps(
    quickstart: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert write_quickstart(quickstart, tmp_path, monkeypatch) == 2
    assert "pip install chatterbot-corpus==1.3.3" in capsys.readouterr().err
    assert bytes_of(tmp_path) == {}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    quickstart: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    path = tmp_path / "qa-train.jsonl"
    path.write_text("old\n")
    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="no space"):
        quickstart.write_records(path, [{"text": "new"}])
    assert bytes_of(tmp_path) == {"qa-train.jsonl": b"old\n"}


@pytest.mark.parametrize(
    ("topic", "held_out"), [("dict", True), ("slicings", True), ("with", False), ("if", False)]
)
def test_a_topic_is_held_out_when_the_hash_of_its_name_is_divisible_by_ten(
    corpus: ModuleType, topic: str, held_out: bool
) -> None:
    """SHA-256 as a number ends in 0 for "dict" and "slicings"."""
    assert importlib.import_module("held_out_topics").is_held_out(topic) is held_out


def test_pretraining_and_the_retention_split_share_one_rule(
    quickstart: ModuleType, corpus: ModuleType
) -> None:
    rule = importlib.import_module("held_out_topics")

    assert quickstart.held_out_topics is rule.held_out_topics
    assert corpus.training_topics is rule.training_topics


def test_no_retention_text_is_in_the_pretraining_text(
    quickstart: ModuleType, corpus: ModuleType
) -> None:
    """Topics quote each other, so keeping a topic out by name alone is not enough."""
    whole, single_paragraphs = corpus.topic_documents()
    pretraining = " ".join(" ".join(text.split()) for text in whole + single_paragraphs)
    retention = [" ".join(record["text"].split()) for record in quickstart.retention_records()]

    assert len(retention) == 60
    assert [text for text in retention if text in pretraining] == []


@needs_model
def test_the_base_model_is_smaller_than_four_megabytes() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 4_000_000


@needs_model
def test_retention_texts_fit_in_128_tokens_of_the_base_model(
    quickstart: ModuleType, no_network: None
) -> None:
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(MODEL)
    texts = [record["text"] + tokenizer.eos_token for record in quickstart.retention_records()]

    assert max(len(ids) for ids in tokenizer(texts)["input_ids"]) <= 128


@needs_model
def test_the_base_model_has_an_end_token_that_is_not_its_padding(no_network: None) -> None:
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(MODEL)

    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|endoftext|>", "<|pad|>")
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, len(tokenizer)) == (0, 1, 1024)
    assert tokenizer.chat_template is None


@needs_model
@pytest.mark.skipif(
    f"Python {sys.version.split()[0]}" not in CARD,
    reason="the card's figures hold for the help topics of the Python that made the model",
)
def test_the_card_states_the_loss_that_is_measured(scripts_on_path: None, no_network: None) -> None:
    """The card rounds to three digits; the rest of the tolerance is for other processors."""
    pretrain_base = importlib.import_module("pretrain_base")
    transformers = importlib.import_module("transformers")

    measured = pretrain_base.measure_held_out(
        transformers.AutoModelForCausalLM.from_pretrained(MODEL),
        transformers.AutoTokenizer.from_pretrained(MODEL),
    )

    assert stated("held-out loss, nats per token") == pytest.approx(
        measured.loss_nats_per_token, abs=0.002
    )
    assert stated("held-out bits per byte") == pytest.approx(measured.bits_per_byte, abs=0.002)
    assert stated("unigram entropy of the held-out tokens") == pytest.approx(
        measured.unigram_nats_per_token, abs=0.0006
    )


@needs_model
def test_the_base_model_knows_held_out_text_far_better_than_token_counts_do(
    quickstart: ModuleType, no_network: None
) -> None:
    """The least loss without context is the entropy of the sample's own tokens.

    A small sample has a smaller entropy than the whole text, which favours the baseline. A third
    below it is out of reach for token counts.
    """
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL)
    texts = [tokenizer.eos_token + record["text"] for record in quickstart.retention_records()]
    rows = [torch.tensor([ids]) for ids in tokenizer(texts)["input_ids"]]
    counts = Counter(token for row in rows for token in row[0, 1:].tolist())
    tokens = counts.total()

    with torch.no_grad():
        nats = sum(model(input_ids=r, labels=r).loss.item() * (r.numel() - 1) for r in rows)
    entropy = -sum(n / tokens * math.log(n / tokens) for n in counts.values())

    assert nats / tokens < 0.67 * entropy
