"""What the contenders of bench_loop.py work on: model, records and a stopwatch.

Axes: b rows, t tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from bench_setup import WARM_WINDOWS, Setup
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from sweeper.records import chain_digest
from sweeper.training.adapter import adapt
from sweeper.training.exposure import Planned
from sweeper.training.options import LoraOptions
from sweeper.training.window import Document, Example, PlannedWindow, Window

LORA = LoraOptions(rank=16, alpha=32, targets="all-linear")
PAD = 0


class Stopwatch:
    """Times a lap, all but its first windows.

    Attributes:
        cpu_seconds: Of this process, once the lap is over.
        wall_seconds: Likewise.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._done = 0
        self._began = (0.0, 0.0)
        self.cpu_seconds = 0.0
        self.wall_seconds = 0.0

    def window_ended(self) -> None:
        """Counts a window, and looks at the clocks where the timed ones begin and end."""
        self._done += 1
        if self._done == WARM_WINDOWS:
            self._began = self._now()
        if self._done == self._setup.all_windows:
            cpu, wall = self._now()
            self.cpu_seconds = cpu - self._began[0]
            self.wall_seconds = wall - self._began[1]

    def over(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Yields the windows; the work on one is over when the next is asked for."""
        for window in windows:
            yield window
            self.window_ended()

    def _now(self) -> tuple[float, float]:
        if self._setup.device == "cuda":
            torch.cuda.synchronize()
        return time.process_time(), time.perf_counter()


def make_model(setup: Setup) -> nn.Module:
    """Returns a Llama with random weights and an adapter on all of its linear layers."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=setup.vocabulary,
        hidden_size=setup.hidden,
        intermediate_size=setup.hidden * 8 // 3 // 8 * 8,
        num_hidden_layers=setup.layers,
        num_attention_heads=setup.heads,
        num_key_value_heads=setup.heads,
        max_position_embeddings=setup.tokens,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=1,
    )
    dtype = torch.bfloat16 if setup.device == "cuda" else torch.float32
    with torch.device(setup.device):
        model = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=setup.attention
        )
    return adapt(model, LORA, seed=1).model


def make_windows(setup: Setup) -> list[Window]:
    """Returns the windows of a lap, the same for all laps."""
    draw = np.random.default_rng(2)
    make = _packed_row if setup.packed else _record
    rows = [make(setup, draw) for _ in range(setup.all_windows * setup.rows_per_window)]
    windows, rolling, first = [], bytes(32), 0
    for index, start in enumerate(range(0, len(rows), setup.rows_per_window), start=1):
        examples = rows[start : start + setup.rows_per_window]
        for example in examples:
            pairs = zip(example.documents, example.targets_by_document, strict=True)
            for document, targets in pairs:
                rolling = chain_digest(rolling, bytes.fromhex(document.digest), targets)
        plan = PlannedWindow(
            records=sum(len(example.documents) for example in examples),
            input_tokens=sum(example.input_tokens for example in examples),
            target_tokens=sum(example.target_tokens for example in examples),
            record_digest=rolling.hex(),
        )
        windows.append(Window(index=index, first_record=first, examples=examples, planned=plan))
        first += plan.records
    return windows


def planned(windows: Sequence[Window]) -> Planned:
    """Returns the plan that the windows make."""
    plans = [window.planned for window in windows]
    return Planned(
        windows=len(plans),
        records=sum(plan.records for plan in plans),
        input_tokens=sum(plan.input_tokens for plan in plans),
        target_tokens=sum(plan.target_tokens for plan in plans),
        last_window_target_tokens=plans[-1].target_tokens,
    )


def _record(setup: Setup, draw: np.random.Generator) -> Example:
    """Returns a record of half to all of the longest length, the last two fifths supervised."""
    return _document(setup, draw, int(draw.integers(setup.tokens // 2, setup.tokens + 1)))


def _packed_row(setup: Setup, draw: np.random.Generator) -> Example:
    """Returns a row of records of an eighth to a half of its length, as many as fit."""
    records: list[Example] = []
    room = setup.tokens
    while True:
        length = int(draw.integers(setup.tokens // 8, setup.tokens // 2 + 1))
        if length > room:
            break
        records.append(_document(setup, draw, length))
        room -= length
    return Example(
        token_ids=np.concatenate([record.token_ids for record in records]),
        supervised=np.concatenate([record.supervised for record in records]),
        documents=tuple(document for record in records for document in record.documents),
        is_packed=True,
    )


def _document(setup: Setup, draw: np.random.Generator, length: int) -> Example:
    token_ids = draw.integers(2, setup.vocabulary, size=length, dtype=np.int32)
    name = draw.bytes(32).hex()
    return Example(
        token_ids=token_ids,
        supervised=np.arange(length) >= length - length * 2 // 5,
        documents=(Document(record=0, digest=name, group=name, tokens=length),),
    )
