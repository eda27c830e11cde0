"""Pretrains primer-1m, the small base model that tests and the quickstart fine-tune.

    OMP_NUM_THREADS=1 python scripts/pretrain_base.py studies/models/primer-1m

Reads top to bottom: documents, tokenizer, rows, training, held-out loss, model card. Seeds and the
order of the text are fixed; one thread, so a rerun on the same machine makes the same model.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from held_out_topics import held_out_topics
from primer_corpus import (
    PACKAGE_SHA256,
    PACKAGE_VERSION,
    CorpusError,
    fetch_packages,
    jargon_documents,
    topic_documents,
    wordnet_documents,
)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 20250101
VOCABULARY = 1024
END, PAD = "<|endoftext|>", "<|pad|>"
ROW_SHAPES = ((16, 128), (8, 256), (16, 128), (4, 512))
TOKENS_PER_UPDATE = 2048
SHORTEST_REST = 32
PEAK_LEARNING_RATE = 4e-3
WARMUP_UPDATES = 200
LONGEST = 512
EVALUATION_ROW = 256
SIZE_LIMIT_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """What the held-out topics cost a model, against what they cost without one."""

    loss_nats_per_token: float
    bits_per_byte: float
    unigram_nats_per_token: float
    tokens: int
    text_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The figures of one finished pretraining, as the model card states them."""

    parameters: int
    updates: int
    tokens_seen: int
    cpu_seconds: float
    before: HeldOut
    after: HeldOut


def gather_documents(packages: Path) -> list[str]:
    """Returns one pass of the mixture: each source's documents, as often as its weight says.

    The topics are few and close to the retention split; the Jargon File is prose of more than one
    sentence; WordNet, the largest by far, is seen once a pass.
    """
    root = fetch_packages(packages)
    whole_topics, single_paragraphs = topic_documents()
    documents = wordnet_documents(root) + 2 * jargon_documents(root)
    return documents + 3 * whole_topics + 3 * single_paragraphs


def train_tokenizer(documents: list[str]) -> PreTrainedTokenizerFast:
    """Trains the byte-level BPE; any text has tokens, and only END and PAD are special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def encode(documents: list[str], tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Returns each document's tokens, END appended: the model learns where a text is over."""
    end = tokenizer.get_vocab()[END]
    return [[*ids, end] for ids in tokenizer(documents, verbose=False)["input_ids"]]


def rows(documents: list[list[int]], row_tokens: Iterator[int]) -> Iterator[list[int]]:
    """Cuts an endless, reshuffled stream of documents into rows of the lengths asked for.

    A row starts at the start of a document wherever it can, as a record does in fine-tuning: what
    a row's end cuts off goes on in the next row only if it is long.
    """
    order = _endless(documents)
    rest: list[int] = []
    for length in row_tokens:
        row = rest
        while len(row) < length:
            row = row + next(order)
        rest = row[length:] if len(row) - length >= SHORTEST_REST else []
        yield row[:length]


def build_model() -> LlamaForCausalLM:
    """Returns the untrained Llama; its size is chosen to stay under 4 MB in float32."""
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=1,
    )
    return LlamaForCausalLM(config)


def train(
    model: LlamaForCausalLM, documents: list[list[int]], *, updates: int, log_every: int = 250
) -> int:
    """Trains the model in place and returns how many tokens it has seen."""
    optimizer = torch.optim.AdamW(_parameter_groups(model), betas=(0.9, 0.95), fused=True)
    lengths = (length for batch in _shapes(updates) for length in [batch[1]] * batch[0])
    stream = rows(documents, lengths)
    losses: list[float] = []
    model.train()
    for update, (height, _) in enumerate(_shapes(updates), start=1):
        batch = torch.tensor([next(stream) for _ in range(height)])
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update, updates)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if update % log_every == 0:
            recent = sum(losses[-log_every:]) / log_every
            print(
                f"update {update}/{updates}  loss {recent:.3f}  cpu {time.process_time():.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return updates * TOKENS_PER_UPDATE


def learning_rate(update: int, updates: int) -> float:
    """Rises linearly to the peak, then falls on a cosine to zero just after the last update."""
    if update <= WARMUP_UPDATES:
        return PEAK_LEARNING_RATE * update / WARMUP_UPDATES
    progress = (update - WARMUP_UPDATES) / (updates + 1 - WARMUP_UPDATES)
    return PEAK_LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def measure_held_out(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> HeldOut:
    """Scores every token of the held-out topics, in rows that each start after an END.

    The unigram figure is the entropy of these very tokens: no model that ignores what came
    before can do better.
    """
    model.train(mode=False)
    texts = list(held_out_topics().values())
    end = tokenizer.get_vocab()[END]
    nats = 0.0
    counts: Counter[int] = Counter()
    for ids in tokenizer(texts, verbose=False)["input_ids"]:
        counts.update(ids)
        for start in range(0, len(ids), EVALUATION_ROW):
            targets = ids[start : start + EVALUATION_ROW]
            inputs = torch.tensor([[end, *targets[:-1]]])
            logits = model(input_ids=inputs, use_cache=False).logits[0].double()
            nats += cross_entropy(logits, torch.tensor(targets), reduction="sum").item()
    tokens = counts.total()
    text_bytes = sum(len(text.encode()) for text in texts)
    return HeldOut(
        loss_nats_per_token=nats / tokens,
        bits_per_byte=nats / math.log(2) / text_bytes,
        unigram_nats_per_token=-sum(n / tokens * math.log(n / tokens) for n in counts.values()),
        tokens=tokens,
        text_bytes=text_bytes,
    )


def write_card(folder: Path, run: Run, licence: str) -> None:
    """Writes the model card with the figures of this run, beside the text it is made from."""
    template = (Path(__file__).parent / "primer_card.md").read_text(encoding="utf-8")
    figures = {
        "parameters": f"{run.parameters:,}",
        "updates": f"{run.updates:,}",
        "updates_plain": str(run.updates),
        "tokens_seen": f"{run.tokens_seen:,}",
        "cpu_minutes": f"{run.cpu_seconds / 60:.1f}",
        "held_out_tokens": f"{run.after.tokens:,}",
        "held_out_bytes": f"{run.after.text_bytes:,}",
        "loss": f"{run.after.loss_nats_per_token:.3f}",
        "bits_per_byte": f"{run.after.bits_per_byte:.3f}",
        "loss_before": f"{run.before.loss_nats_per_token:.3f}",
        "unigram": f"{run.after.unigram_nats_per_token:.3f}",
        "uniform": f"{math.log(VOCABULARY):.3f}",
        "python": sys.version.split()[0],
        "python_copyright": sys.copyright.splitlines()[0],
        "torch": torch.__version__,
        "packages": "\n".join(
            f"- `{name}` {PACKAGE_VERSION[name]}, SHA-256 `{digest}`"
            for name, digest in PACKAGE_SHA256.items()
        ),
        "wordnet_licence": licence,
    }
    text = template
    for name, figure in figures.items():
        text = text.replace("{" + name + "}", figure)
    (folder / "README.md").write_text(text, encoding="utf-8")


def wordnet_licence(packages: Path) -> str:
    """Returns WordNet's own notice, which has to go wherever a copy of WordNet goes."""
    lines = (packages / "unpacked/usr/share/wordnet/data.noun").read_text("utf-8").splitlines()
    notice = [line for line in lines if line.startswith("  ")]
    without_numbers = [re.sub(r"^ *[0-9]+ *", "", line).rstrip() for line in notice]
    return "\n".join(f"    {line}".rstrip() for line in without_numbers)


def pretrain(output: Path, *, packages: Path, updates: int) -> Run:
    """Makes the model and writes it to `output`, whole or not at all."""
    torch.set_num_threads(1)
    texts = gather_documents(packages)
    tokenizer = train_tokenizer(texts)
    documents = encode(texts, tokenizer)
    print(f"one pass: {len(documents):,} documents, {sum(map(len, documents)):,} tokens")
    model = build_model()
    before = measure_held_out(model, tokenizer)
    print(f"held-out loss before: {before.loss_nats_per_token:.4f} nats per token", flush=True)
    start = time.process_time()
    tokens_seen = train(model, documents, updates=updates)
    run = Run(
        parameters=model.num_parameters(),
        updates=updates,
        tokens_seen=tokens_seen,
        cpu_seconds=time.process_time() - start,
        before=before,
        after=measure_held_out(model, tokenizer),
    )
    _save(output, model, tokenizer, run, wordnet_licence(packages))
    return run


def main() -> int:
    """Reads the command line, pretrains, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="folder to write; must not exist yet")
    parser.add_argument("--updates", type=int, default=11_000, help="of 2,048 tokens [11000]")
    parser.add_argument(
        "--packages", type=Path, help="folder with the .deb files, or to fetch them to"
    )
    options = parser.parse_args()
    if options.output.exists():
        print(f"{options.output} exists already; remove it or name another", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        try:
            run = pretrain(
                options.output,
                packages=options.packages or Path(scratch),
                updates=options.updates,
            )
        except CorpusError as error:
            print(error, file=sys.stderr)
            return 1
    print(
        f"held-out loss after:  {run.after.loss_nats_per_token:.4f} nats per token, "
        f"{run.after.bits_per_byte:.4f} bits per byte (unigram entropy "
        f"{run.after.unigram_nats_per_token:.4f}, uniform {math.log(VOCABULARY):.4f})\n"
        f"{run.tokens_seen:,} tokens in {run.cpu_seconds:.0f} CPU seconds -> {options.output}"
    )
    return 0


def _endless(documents: list[list[int]]) -> Iterator[list[int]]:
    """Yields the documents pass after pass, each pass in an order fixed by the seed."""
    for number in range(sys.maxsize):
        order = list(range(len(documents)))
        random.Random(f"{SEED}/{number}").shuffle(order)  # noqa: S311 (an order, not a secret)
        for place in order:
            yield documents[place]


def _shapes(updates: int) -> Iterator[tuple[int, int]]:
    """Yields rows and tokens per row for each update: mostly short, but every position trained."""
    for update in range(updates):
        yield ROW_SHAPES[update % len(ROW_SHAPES)]


def _parameter_groups(model: LlamaForCausalLM) -> list[dict[str, object]]:
    """Decays the matrices and leaves the norms alone."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]


def _save(
    output: Path,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    run: Run,
    licence: str,
) -> None:
    """Writes a folder beside the target, checks its size, and renames it."""
    partial = output.with_name(f".{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    write_card(partial, run, licence)
    size = sum(path.stat().st_size for path in partial.iterdir())
    assert size < SIZE_LIMIT_BYTES, f"{partial} holds {size} bytes"
    partial.replace(output)


if __name__ == "__main__":
    sys.exit(main())
