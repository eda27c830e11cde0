"""Small models and a way to run the loop on hand-made windows."""

import hashlib
import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from sweeper.records import Evaluation, Notice, PhaseBegun, Stop, Update
from sweeper.training.course import Course
from sweeper.training.exposure import Planned
from sweeper.training.loop import train
from sweeper.training.options import (
    AdamWOptions,
    EvaluationOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.training.stopping import StopOptions
from sweeper.training.window import Document, Example, HeldOutSet, PlannedWindow, Window

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
    digest = hashlib.sha256(repr(list(token_ids)).encode()).hexdigest()
    return Example(
        token_ids=np.array(token_ids, dtype=np.int32),
        supervised=supervised,
        documents=(Document(record=0, digest=digest, group=digest, tokens=len(token_ids)),),
    )


def packed(*records):
    """Returns the records end to end as one row of a packed stream."""
    return Example(
        token_ids=np.concatenate([record.token_ids for record in records]),
        supervised=np.concatenate([record.supervised for record in records]),
        documents=tuple(document for record in records for document in record.documents),
        is_packed=True,
    )


def costing(*tokens):
    """Returns an example whose targets are the zeros after the given tokens."""
    token_ids = list(itertools.chain.from_iterable((token, 0) for token in tokens))
    return example(token_ids, targets=range(1, len(token_ids), 2))


def rolling_digest(examples):
    """Returns the digest of unpacked records as data/stream.py defines it, hexadecimal."""
    digest = bytes(32)
    for read in examples:
        record, targets = bytes.fromhex(read.documents[0].digest), int(read.supervised.sum())
        digest = hashlib.sha256(digest + record + targets.to_bytes(8, "little")).digest()
    return digest.hex()


def windows_of(examples, sizes):
    """Returns windows of the given numbers of records, in order."""
    ends = list(itertools.accumulate(sizes))
    return [
        Window(
            index=index,
            first_record=end - size,
            examples=examples[end - size : end],
            planned=PlannedWindow(
                records=size,
                input_tokens=sum(e.input_tokens for e in examples[end - size : end]),
                target_tokens=sum(e.target_tokens for e in examples[end - size : end]),
                record_digest=rolling_digest(examples[:end]),
            ),
        )
        for index, (end, size) in enumerate(zip(ends, sizes, strict=True), start=1)
    ]


def planned(windows):
    return Planned(
        windows=len(windows),
        records=sum(window.planned.records for window in windows),
        input_tokens=sum(window.planned.input_tokens for window in windows),
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


_COURSE = ("options", "planned", "held_out", "evaluation", "stop", "micro_batch", "pad_token_id")


def course_of(windows, **changes):
    """Returns a course for the windows; what a test is about is given by name."""
    settings = {
        "held_out": (),
        "options": training_options(),
        "planned": changes.get("planned") or planned(windows),
        "evaluation": EvaluationOptions(),
        "stop": StopOptions(),
        "micro_batch": 2,
        "pad_token_id": 0,
    }
    return Course(**settings | changes)


def run(model, windows, **changes):
    """Runs the loop with a fake clock that moves one second a look."""
    records = []
    seconds = itertools.count()
    course = course_of(windows, **{k: v for k, v in changes.items() if k in _COURSE})
    settings = {
        "emit": records.append,
        "interrupted": lambda: False,
        "clock": lambda: float(next(seconds)),
    }
    others = {k: v for k, v in changes.items() if k not in _COURSE}
    outcome = train(model, windows, course, **settings | others)
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
        packed=packed,
        costing=costing,
        windows_of=windows_of,
        planned=planned,
        training_options=training_options,
        run=run,
        held_out=held_out,
        tiny_llama=tiny_llama,
        random_examples=random_examples,
    )


class Fleet:
    """Ranks as processes of their own that answer `rank_child.py`'s scenarios together."""

    def __init__(self, count, folder):
        loopback = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        argv = [sys.executable, Path(__file__).with_name("rank_child.py")]
        self.processes = [
            subprocess.Popen(
                [*argv, str(rank), str(count), folder / "meeting"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **loopback},
            )
            for rank in range(count)
        ]

    def ask(self, scenario, **arguments):
        """Returns each rank's result, by rank."""
        return [answer["result"] for answer in self.answers(scenario, **arguments)]

    def answers(self, scenario, **arguments):
        """Returns each rank's result or error; None of a rank that has ended."""
        for process in self.processes:
            line = json.dumps({"scenario": scenario, "arguments": arguments})
            process.stdin.write(line + "\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in self.processes]
        return [json.loads(line) if line else None for line in lines]

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def fleets(tmp_path_factory):
    """A fleet of so many ranks for the whole session: torch takes its time to load."""
    made = {}

    def fleet(count):
        if count not in made:
            made[count] = Fleet(count, tmp_path_factory.mktemp("fleet"))
        return made[count]

    yield fleet
    for each in made.values():
        each.end()


@pytest.fixture
def new_fleet(tmp_path):
    """A fleet of this test's own, of which not all may survive."""
    made = []

    def fleet(count):
        made.append(Fleet(count, tmp_path))
        return made[-1]

    yield fleet
    for each in made:
        each.end()


@pytest.fixture(scope="session")
def scenarios():
    """The scenarios of `rank_child.py` as functions, for a rank alone in the test's process."""
    place = importlib.util.spec_from_file_location(
        "rank_child", Path(__file__).with_name("rank_child.py")
    )
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A folder with a tiny Llama as save_pretrained leaves it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    tiny_llama().save_pretrained(folder)
    return folder
