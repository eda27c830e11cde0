"""The loops that bench_loop.py compares; it starts this file, and asks for laps by name.

A lap trains a fresh adapter on a fresh model over the same records with the same optimizer. One
process may run laps of several contenders in turn, which then get the same memory to work in, or of
one alone, whose memory is its own.

    python scripts/bench_contenders.py SETUP NAMES      names on stdin, a line of JSON for each
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from bench_setup import WARM_WINDOWS, Setup
from bench_work import PAD, Stopwatch, make_model, make_windows, planned
from torch import Tensor, nn
from transformers import TrainerCallback

from sweeper.records import Record, Update
from sweeper.training.batch import make_batches
from sweeper.training.course import Course
from sweeper.training.determinism import make_deterministic
from sweeper.training.keeper import Keeping
from sweeper.training.loop import train
from sweeper.training.loss import Objective
from sweeper.training.memory import peak_memory_bytes
from sweeper.training.optimizer import make_optimizer, set_rate
from sweeper.training.options import (
    AdamWOptions,
    EvaluationOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.training.precision import ResolvedPrecision
from sweeper.training.stopping import StopOptions
from sweeper.training.trainable import digest, trainable
from sweeper.training.window import Example, Window
from sweeper.trial.events import EventLog

RATE = 1e-4
CLIP_NORM = 1.0
IGNORED = -100
LOGGED_WINDOWS = 10
"""The default of TRL between two logs, for both trainers; the loss of a lap is their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a contender has to do in a lap."""

    model: nn.Module
    windows: Sequence[Window]
    setup: Setup
    stopwatch: Stopwatch

    @property
    def precision(self) -> ResolvedPrecision:
        """float32 on a CPU, bfloat16 on a GPU."""
        return "bfloat16" if self.setup.device == "cuda" else "float32"

    @property
    def optimizer(self) -> AdamWOptions:
        """The one that all contenders use."""
        return AdamWOptions(kind="adamw")


Losses = list[float]


# --- the contenders ------------------------------------------------------------------------------


def run_ours(work: Work, *, clip_norm: float | None) -> Losses:
    """The loop as a trial runs it: records to a file, checks, ledger, a keeper with nothing due."""
    losses: Losses = []
    setup = work.setup
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = EventLog(Path(folder) / "events.jsonl")

        def emit(record: Record) -> None:
            log.emit(record)
            if isinstance(record, Update) and record.loss is not None:
                losses.append(record.loss)

        course = Course(
            options=TrainingOptions(
                learning_rate=RATE,
                schedule=ScheduleOptions(kind="constant"),
                optimizer=work.optimizer,
                records_per_update=setup.rows_per_window,
                clip_norm=clip_norm,
                precision=work.precision,
            ),
            planned=planned(work.windows),
            held_out=(),
            evaluation=EvaluationOptions(),
            stop=StopOptions(),
            micro_batch=setup.micro_batch,
            pad_token_id=PAD,
        )
        outcome = train(
            work.model,
            work.stopwatch.over(work.windows),
            course,
            emit=emit,
            interrupted=lambda: False,
            clock=time.monotonic,
            keeping=Keeping(folder=Path(folder), every_seconds=1e9),
        )
        log.close()
    assert outcome.reason == "budget_reached", outcome
    return losses


def run_bare(work: Work, *, clip_norm: float | None) -> Losses:
    """The same arithmetic and nothing else: no record, no check, no look at a number."""
    objective = Objective(work.model, work.precision)
    tensors = trainable(work.model)
    optimizer = make_optimizer(tensors, work.optimizer)
    set_rate(optimizer, RATE)
    work.model.train()
    sums = []
    for window in work.stopwatch.over(work.windows):
        total = torch.zeros((), dtype=torch.float64, device=objective.device)
        for batch in make_batches(window.examples, work.setup.micro_batch, PAD):
            loss = objective(batch) / window.target_tokens
            loss.backward()
            total += loss.detach()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(tensors.values(), clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        sums.append(total)
    return [float(loss) for loss in sums]


class Timed(TrainerCallback):
    """Counts the windows of a Trainer."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch

    def on_step_end(self, *_arguments: object, **_others: object) -> None:
        """Ends a window; its log and the fetching of the next batches are of the next one."""
        self._stopwatch.window_ended()


def run_trainer(work: Work) -> Losses:
    """The Trainer of transformers, without evaluation and without saving."""
    from transformers import Trainer, TrainingArguments  # noqa: PLC0415  # its memory is its own

    return _run_any_trainer(
        work,
        make=lambda folder, callbacks: Trainer(
            model=work.model,
            args=TrainingArguments(**_arguments(work.setup, folder), remove_unused_columns=False),
            train_dataset=_features(work),
            data_collator=collate_packed if work.setup.packed else collate_padded,
            callbacks=callbacks,
        ),
    )


def run_trl(work: Work) -> Losses:
    """TRL's SFTTrainer on the same rows; packed, they are laid end to end as its own packing does.

    The rows come ready-made, because its packing would put other records together than ours.
    """
    import datasets  # noqa: PLC0415  # an extra
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415  # an extra

    setup = work.setup
    return _run_any_trainer(
        work,
        make=lambda folder, callbacks: SFTTrainer(
            model=work.model,
            args=SFTConfig(
                **_arguments(setup, folder),
                gradient_checkpointing=False,
                max_length=None,
                padding_free=setup.packed,
                dataset_kwargs={"skip_prepare_dataset": True},
            ),
            train_dataset=datasets.Dataset.from_list(_features(work)),
            processing_class=_tokenizer(),
            callbacks=callbacks,
        ),
    )


CONTENDERS: Mapping[str, Callable[[Work], Losses]] = {
    "ours": lambda work: run_ours(work, clip_norm=CLIP_NORM),
    "ours again": lambda work: run_ours(work, clip_norm=CLIP_NORM),
    "ours, not deterministic": lambda work: run_ours(work, clip_norm=CLIP_NORM),
    "ours, no clipping": lambda work: run_ours(work, clip_norm=None),
    "bare loop": lambda work: run_bare(work, clip_norm=CLIP_NORM),
    "bare loop, no clipping": lambda work: run_bare(work, clip_norm=None),
    "Trainer": run_trainer,
    "TRL": run_trl,
}
NOT_DETERMINISTIC = frozenset({"ours, not deterministic", "Trainer", "TRL"})
"""Trials ask torch for deterministic algorithms; the other trainers do not, left to themselves."""


# --- what the other trainers need ----------------------------------------------------------------


def _arguments(setup: Setup, folder: str) -> dict[str, object]:
    return {
        "output_dir": folder,
        "use_cpu": setup.device == "cpu",
        "bf16": setup.device == "cuda",
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": LOGGED_WINDOWS,
        "num_train_epochs": 1,
        "per_device_train_batch_size": setup.micro_batch,
        "gradient_accumulation_steps": setup.micro_batches,
        "train_sampling_strategy": "sequential",
        "optim": "adamw_torch",
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": CLIP_NORM,
    }


def _run_any_trainer(work: Work, *, make: Callable[[str, list[TrainerCallback]], object]) -> Losses:
    from transformers import PrinterCallback  # noqa: PLC0415  # beside the Trainer

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        trainer = make(folder, [Timed(work.stopwatch)])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        history = trainer.state.log_history
    return [entry["loss"] for entry in history if "loss" in entry]


def _features(work: Work) -> list[dict[str, list[int]]]:
    return [_feature(example) for window in work.windows for example in window.examples]


def _feature(example: Example) -> dict[str, list[int]]:
    labels = np.where(example.supervised, example.token_ids, IGNORED)
    feature = {"input_ids": example.token_ids.tolist(), "labels": labels.tolist()}
    if example.is_packed:
        feature["seq_lengths"] = [document.tokens for document in example.documents]
    return feature


def collate_padded(features: Sequence[Mapping[str, list[int]]]) -> dict[str, Tensor]:
    """Pads rows at the right to the longest."""
    rows = [torch.tensor(feature["input_ids"]) for feature in features]
    labels = [torch.tensor(feature["labels"]) for feature in features]
    present = [torch.ones_like(row) for row in rows]
    pad = nn.utils.rnn.pad_sequence
    return {
        "input_ids": pad(rows, batch_first=True, padding_value=PAD),
        "labels": pad(labels, batch_first=True, padding_value=IGNORED),
        "attention_mask": pad(present, batch_first=True, padding_value=0),
    }


def collate_packed(features: Sequence[Mapping[str, list[int]]]) -> dict[str, Tensor]:
    """Lays rows end to end, without a mask; positions begin anew with each document."""
    lengths = [length for feature in features for length in feature["seq_lengths"]]
    return {
        "input_ids": _end_to_end(features, "input_ids"),
        "labels": _end_to_end(features, "labels"),
        "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
    }


def _end_to_end(features: Sequence[Mapping[str, list[int]]], name: str) -> Tensor:
    return torch.tensor([list(itertools.chain.from_iterable(row[name] for row in features))])


def _tokenizer() -> object:
    """Returns the smallest tokenizer that TRL takes; it only asks for the padding token."""
    from tokenizers import Tokenizer, models  # noqa: PLC0415  # for TRL alone
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    pad, end = "<pad>", "<end>"
    words = Tokenizer(models.WordLevel({pad: PAD, end: 1}, unk_token=end))
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token=pad, eos_token=end, unk_token=end
    )


def run_lap(name: str, setup: Setup, windows: Sequence[Window]) -> dict[str, object]:
    """Runs one lap from scratch and returns what came of it."""
    make_deterministic(deterministic=name not in NOT_DETERMINISTIC, threads=setup.threads)
    work = Work(model=make_model(setup), windows=windows, setup=setup, stopwatch=Stopwatch(setup))
    tensors = trainable(work.model)
    losses = CONTENDERS[name](work)
    logged = losses[:1] if name in {"Trainer", "TRL"} else losses[:LOGGED_WINDOWS]
    return {
        "cpu_seconds": work.stopwatch.cpu_seconds,
        "wall_seconds": work.stopwatch.wall_seconds,
        "loss": sum(logged) / len(logged),
        "weights": digest(tensors),
        "peak_memory_bytes": peak_memory_bytes(torch.device(setup.device)),
    }


def import_for(name: str) -> None:
    """Imports what a contender needs, so that its memory is not counted as that of the work."""
    if name in {"Trainer", "TRL"}:
        from transformers import PrinterCallback, Trainer  # noqa: F401, PLC0415
    if name == "TRL":
        import trl.trainer.sft_trainer  # noqa: F401, PLC0415


def main() -> None:
    """Answers each name on standard input with a lap of that contender."""
    setup = Setup(**json.loads(sys.argv[1]))
    # Standard output is for laps alone, whatever a library prints.
    answers, sys.stdout = sys.stdout, sys.stderr
    for name in sys.argv[2:]:
        import_for(name)
    windows = make_windows(setup)
    before = peak_memory_bytes(torch.device(setup.device))
    tokens = sum(window.input_tokens for window in windows[WARM_WINDOWS:])
    facts = {"memory_bytes_before": before, "tokens": tokens}
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run_lap(line.strip(), setup, windows)), file=answers, flush=True)
        gc.collect()
        if setup.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
