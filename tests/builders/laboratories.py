"""A study on a tiny real model: the model, the records, the study file, the command line to run."""

import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
from waiting import within

from sweeper.cli.main import main

WORDS = ["red", "blue", "green", "seven", "nine", "house", "river", "stone", "cloud", "bread"]


def write_tiny_model(folder: Path) -> None:
    """Writes a random two-layer Llama with a byte-level tokenizer, as a checkpoint folder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            tie_word_embeddings=False,
            eos_token_id=1,
            pad_token_id=0,
        )
    ).save_pretrained(folder)


def records(first: int, count: int) -> list[dict[str, str]]:
    """Question-answer records that share no prompt with another range of numbers."""
    return [
        {
            "prompt": f"What follows {number} {WORDS[number % len(WORDS)]}?",
            "answer": " ".join(
                WORDS[(number + step) % len(WORDS)] for step in range(number % 3 + 1)
            ),
        }
        for number in range(first, first + count)
    ]


def write_jsonl(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_data(folder: Path) -> None:
    """Writes the records of every split."""
    write_jsonl(folder / "train.jsonl", records(0, 40))
    write_jsonl(folder / "validation.jsonl", records(1000, 8))
    write_jsonl(folder / "test.jsonl", records(2000, 8))
    write_jsonl(
        folder / "retention.jsonl",
        [{"text": f"The {a} is near the {b}."} for a, b in itertools.pairwise(WORDS)],
    )


@dataclass
class Laboratory:
    """A folder with a study file, the folder with its data, and the command line to run on it."""

    folder: Path
    study: Path
    model: Path
    data: Path

    @property
    def run_folder(self) -> Path:
        return self.folder / "runs" / "flow"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sweeper", *arguments]

    def sweeper(self, *arguments: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return done

    def here(self, *arguments: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Gives a command within this process, which spares it the loading of libraries.

        What the command starts are processes as ever.
        """
        out, err = io.StringIO(), io.StringIO()
        status: object = None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(list(arguments))
            except SystemExit as end:
                status = end.code
        assert expect is None or status == expect, out.getvalue() + err.getvalue()
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                self.command(*arguments), cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def log(self) -> Path:
        return self.folder / "run.log"

    def rows(self, table: str, *more: str) -> list[dict[str, object]]:
        return json.loads(self.here(table, str(self.study), "--json", *more).stdout)

    def processes(self) -> list[psutil.Process]:
        """Every live process that was started for this laboratory's folder."""
        mark = str(self.folder)
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values(), process.cwd()]
            except (psutil.Error, OSError):
                continue
            if process.pid != os.getpid() and any(mark in word for word in words):
                found.append(process)
        return found

    def wait_for(self, what, *, seconds: float = 120):
        """Polls until `what()` gives something true, and returns it."""
        return within(seconds, what)


LORA = "tune: lora\nlora: {rank: 4, alpha: 8, targets: all-linear}"

STANDARD = {
    "budget": 1200,
    "every": 400,
    "tune": "tune: lora\nlora: {rank: 4, alpha: 8, dropout: 0.1, targets: all-linear}",
}
"""The study that others are compared with. With dropout, so that random states matter."""

STUDY = """\
name: flow
question: {{kind: rate_too_high, text: Is the rate too large?}}
justification: A test.
compare: {{key: training.learning_rate, multiply: {arms}}}
seeds: {seeds}
budget: {{target_tokens: {budget}}}
model: {{path: {model}}}
{tune}
data:
  train: {{path: {data}/train.jsonl}}
  validation: {{path: {data}/validation.jsonl}}
  test: {{path: {data}/test.jsonl}}
  retention: {{path: {data}/retention.jsonl, format: text}}
  max_length: 96
  max_epochs: 4
training:
  learning_rate: {rate}
  schedule: {{kind: cosine, warmup: {{fraction: 0.1}}}}
  optimizer: {optimizer}
  clip_norm: {clip}
  records_per_update: 4
evaluation: {{every: {{target_tokens: {every}}}}}
run:
  micro_batch: 2
  slots: {slots}
  checkpoint: {{every: {checkpoint}}}
"""


def set_up(
    folder: Path, model: Path, *, data: Path | None = None, **settings: object
) -> Laboratory:
    """Writes a study of few cells into the folder, and its data, unless they are in another."""
    chosen = {
        "arms": "{baseline: 1, double: 2}",
        "seeds": "[0, 1]",
        "budget": 600,
        "rate": "2e-3",
        "optimizer": "{kind: adamw}",
        "clip": "1.0",
        "every": 200,
        "slots": "[cpu, cpu]",
        "checkpoint": "10m",
        "tune": LORA,
        "model": model,
        "data": data or ".",
    } | settings
    if data is None:
        write_data(folder)
    study = folder / "study.yaml"
    study.write_text(STUDY.format(**chosen), encoding="utf-8")
    return Laboratory(folder, study, model, data or folder)
