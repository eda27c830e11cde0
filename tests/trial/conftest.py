from __future__ import annotations

import hashlib
import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sweeper.data.manifest import Manifest, SplitManifest
from sweeper.data.options import Packing
from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.data.stream import plan_stream
from sweeper.study.exposure import planned_exposure
from sweeper.study.spec import TrialSpec
from sweeper.training.options import (
    EvaluationGrid,
    EvaluationOptions,
    LoraOptions,
    ModelOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import run

VOCABULARY = 64


@dataclass(frozen=True)
class Bench:
    """A tiny random model and prepared data of 40 training records, to make specs for."""

    model: Path
    prepared: Path

    def spec(
        self, *, budget: int = 200, packing: Packing | None = None, **changes: object
    ) -> TrialSpec:
        """A LoRA trial that reads `budget` target tokens, four records or rows per update."""
        stream = plan_stream(
            PreparedSplit.open(self.prepared, "train"),
            seed=3,
            budget_target_tokens=budget,
            records_per_update=4,
            max_epochs=budget,
            row_tokens=None if packing is None else packing.row_tokens,
        )
        spec = TrialSpec(
            study="bench",
            fingerprint="0" * 64,
            cell="baseline/3",
            arm="baseline",
            seed=3,
            attempt=1,
            prepared=str(self.prepared),
            model=ModelOptions(path=str(self.model)),
            tune="lora",
            lora=LoraOptions(rank=2, alpha=4, dropout=0.1),
            training=TrainingOptions(
                learning_rate=0.01,
                schedule=ScheduleOptions(kind="constant"),
                records_per_update=4,
            ),
            packing=packing,
            budget_target_tokens=budget,
            planned=planned_exposure(stream),
            evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=100)),
            stop=StopOptions(),
            micro_batch=2,
        )
        return spec.model_copy(update=changes)


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("bench")
    _write_model(folder / "model")
    _write_prepared(folder / "prepared")
    return Bench(model=folder / "model", prepared=folder / "prepared")


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[TrialSpec], AttemptFolder]:
    """Makes the folder of another attempt, its spec written."""

    def make(spec: TrialSpec) -> AttemptFolder:
        folder = AttemptFolder(tmp_path / f"attempt-{len(list(tmp_path.glob('attempt-*'))) + 1}")
        folder.path.mkdir()
        folder.spec.write_text(spec.to_json(), encoding="utf-8")
        return folder

    return make


@pytest.fixture(scope="session")
def carry_out_in(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[AttemptFolder, TrialSpec, int | None], None]:
    """Runs an attempt, its random generators left anywhere; it is interrupted after a window.

    What a first attempt leaves is kept, and copied for the next one of the same spec.
    """
    kept: dict[tuple[str, int | None], Path] = {}

    def carry_out(folder: AttemptFolder, spec: TrialSpec, until: int | None) -> None:
        key = (spec.to_json(), until)
        if key in kept:
            shutil.copytree(kept[key], folder.path, dirs_exist_ok=True)
            return
        asked = itertools.count()  # 0 is asked after loading, n after the n-th window of this one
        random.seed()
        np.random.seed()  # noqa: NPY002
        torch.seed()
        run(folder, interrupted=lambda: next(asked) == until)
        if spec.resume_from is None:
            kept[key] = tmp_path_factory.mktemp("kept") / "attempt"
            shutil.copytree(folder.path, kept[key])

    return carry_out


@pytest.fixture
def restored_torch() -> Iterator[None]:
    """Puts back what a trial sets for its whole process."""
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(mode=False)
    torch.set_num_threads(threads)


def _write_model(folder: Path) -> None:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)


def _write_prepared(folder: Path) -> None:
    folder.mkdir()
    words = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, "w0")))
    tokenizer.save_pretrained(folder / "tokenizer")
    counts = {"train": 40, "validation": 12, "retention": 5}
    for name, count in counts.items():
        write_split(folder / name, _records(name, count))
    manifest = Manifest(
        request_digest="",
        model_digest="",
        model_commit=None,
        tokenizer_digest="",
        uses_chat_template=False,
        pad_token_id=0,
        vocabulary_size=VOCABULARY,
        splits={name: _described(count) for name, count in counts.items()},
        test=None,
        overlaps=(),
        notices=(),
    )
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")


def _records(name: str, count: int) -> list[EncodedRecord]:
    """Records of 6 to 13 tokens; the prompt is 4 of them."""
    draw = np.random.default_rng(len(name))
    lengths = draw.integers(6, 14, size=count).tolist()
    return [
        EncodedRecord(
            token_ids=draw.integers(1, VOCABULARY, size=length).tolist(),
            supervised=[position >= 4 for position in range(length)],
            digest=hashlib.sha256(f"{name} {number}".encode()).digest(),
        )
        for number, length in enumerate(lengths)
    ]


def _described(records: int) -> SplitManifest:
    return SplitManifest(
        source="/nowhere",
        size_bytes=0,
        modified_ns=0,
        file_sha256="",
        holds_test_records=False,
        format="text",
        records_read=records,
        records=records,
        dropped=(),
        cut=0,
        target_tokens=1,
        input_tokens=1,
        longest_tokens=1,
        records_digest="",
        tokens_digest="",
    )
