"""Small models and a way to run the loop on hand-made windows."""

import itertools
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from sweeper.records import Evaluation, Notice, PhaseBegun, Stop, Update
from sweeper.training.exposure import Planned
from sweeper.training.loop import train
from sweeper.training.options import (
    AdamWOptions,
    EvaluationOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions
from sweeper.training.window import Example, HeldOutSet, Window

NOWHERE = -1e4
"""A logit so low that its token has a probability of exactly zero."""


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(0)


class Bigram(nn.Module):
    """A language model that is one table: the row of a token holds the logits of the next.

    A scale multiplies the logits, so that gradients grow with it.
    """

    def __init__(self, table, scale=1.0):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table))
        self.scale = scale

    def forward(self, input_ids, attention_mask, use_cache):
        return SimpleNamespace(logits=self.table[input_ids] * self.scale)


def table_with_losses(losses, dtype=torch.float64):
    """Returns a table in which token 0 after token k costs exactly `losses[k]` nats."""
    size = max(len(losses), 2)
    table = torch.full((size, size), NOWHERE, dtype=dtype)
    table[:, 0] = 0.0
    odds = [math.log(math.expm1(loss)) for loss in losses]
    table[: len(losses), 1] = torch.tensor(odds, dtype=dtype)
    return table


def example(token_ids, targets=None):
    """Returns an example; `targets` are positions, by default all but the first."""
    supervised = np.zeros(len(token_ids), dtype=np.bool_)
    supervised[list(range(1, len(token_ids)) if targets is None else targets)] = True
    return Example(token_ids=np.array(token_ids, dtype=np.int32), supervised=supervised)


def costing(*tokens):
    """Returns an example whose targets are the zeros after the given tokens."""
    token_ids = list(itertools.chain.from_iterable((token, 0) for token in tokens))
    return example(token_ids, targets=range(1, len(token_ids), 2))


def windows_of(examples, sizes):
    """Returns windows of the given numbers of records, in order."""
    ends = list(itertools.accumulate(sizes))
    return [
        Window(
            index=index,
            first_record=end - size,
            examples=examples[end - size : end],
            record_digest=f"{index:064x}",
        )
        for index, (end, size) in enumerate(zip(ends, sizes, strict=True), start=1)
    ]


def planned(windows):
    return Planned(
        windows=len(windows),
        target_tokens=sum(window.target_tokens for window in windows),
        last_window_target_tokens=windows[-1].target_tokens,
    )


def training_options(rate=0.1, **changes):
    """Returns options with a constant rate; what a test is about is given by name."""
    settings = {
        "learning_rate": rate,
        "schedule": ScheduleOptions(kind="constant"),
        "optimizer": AdamWOptions(kind="adamw"),
        "records_per_update": 4,
        "clip_norm": None,
    }
    return TrainingOptions(**settings | changes)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one call of the loop returned and reported."""

    outcome: object
    records: tuple

    def of(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def updates(self):
        return self.of(Update)

    @property
    def evaluations(self):
        return self.of(Evaluation)

    @property
    def losses(self):
        return [update.loss for update in self.updates]

    @property
    def notices(self):
        return [notice.message for notice in self.of(Notice)]

    @property
    def stop(self):
        (stop,) = self.of(Stop)
        return stop

    @property
    def phases(self):
        return [record.phase for record in self.of(PhaseBegun)]


def run(model, windows, **changes):
    """Runs the loop with a fake clock that moves one second a look."""
    records = []
    seconds = itertools.count()
    settings = {
        "windows": windows,
        "held_out": (),
        "options": training_options(),
        "planned": planned(windows),
        "evaluation": EvaluationOptions(),
        "stop": StopOptions(),
        "micro_batch": 2,
        "pad_token_id": 0,
        "emit": records.append,
        "interrupted": lambda: False,
        "clock": lambda: float(next(seconds)),
    }
    outcome = train(model, **settings | changes)
    return Run(outcome=outcome, records=tuple(records))


def held_out(examples, split="validation"):
    return HeldOutSet(split=split, examples=examples, set_digest="0" * 64)


def tiny_llama(seed=0, **changes):
    """Returns a Llama of two layers with random weights, the same for a seed."""
    settings = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(**settings | changes))


def random_examples(count, seed=0):
    """Returns records of 3 to 12 tokens with 1 to all-but-one targets each."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(3, 13, size=count)
    return [
        example(
            draw.integers(0, 64, size=length),
            targets=draw.choice(np.arange(1, length), size=draw.integers(1, length), replace=False),
        )
        for length in lengths
    ]


@pytest.fixture(scope="session")
def build():
    """The builders above, by name: a test file can't import its folder's conftest."""
    return SimpleNamespace(
        Bigram=Bigram,
        table_with_losses=table_with_losses,
        example=example,
        costing=costing,
        windows_of=windows_of,
        planned=planned,
        training_options=training_options,
        run=run,
        held_out=held_out,
        tiny_llama=tiny_llama,
        random_examples=random_examples,
    )


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A folder with a tiny Llama as save_pretrained leaves it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    tiny_llama().save_pretrained(folder)
    return folder
