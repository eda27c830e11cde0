"""Interrupts tiny trials by the hundred and compares them, to the bit, with ones that were not.

    python scripts/resume_check.py --times 100             asked to end, after a random window
    python scripts/resume_check.py --times 100 --kills 16  and as many processes killed by signal 9

Each time a trial is run in two or three attempts. Each begins with random generators that were left
anywhere, and has nothing from those before but their folders. Every loss, norm, rate and evaluation
and every byte of the last and the best weights must be what the uninterrupted trial has. Modes take
turns: an adapter with dropout, all weights, bfloat16, and loss scaling that overflows on a CPU,
each with packed records and without. Exit 0: all equal. 1: one was not; it is named.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.amp import GradScaler
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

import sweeper.training.scaling
from sweeper.data.manifest import Manifest, SplitManifest
from sweeper.data.options import Packing
from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.data.stream import plan_stream
from sweeper.records import Evaluation, Record, Resumed, Skip, Update, decode
from sweeper.study.exposure import planned_exposure
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.study.spec import TrialSpec
from sweeper.training.options import (
    EvaluationGrid,
    EvaluationOptions,
    LoraOptions,
    ModelOptions,
    Precision,
    ScheduleOptions,
    TrainingOptions,
    Warmup,
)
from sweeper.training.precision import ResolvedPrecision
from sweeper.training.stopping import StopOptions
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import main as carry_out_as_a_process
from sweeper.trial.main import run

VOCABULARY = 64
BUDGET = 700
"""Target tokens: about thirty windows of four records."""
ROWS = Packing(row_tokens=30)
GIVE_UP_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way in which a trial is run."""

    name: str
    full: bool = False
    precision: Precision = "float32"
    scaled: bool = False
    packed: bool = False


_PLAIN = (
    Mode(name="adapter with dropout"),
    Mode(name="all weights, float32", full=True),
    Mode(name="adapter, bfloat16", precision="bfloat16"),
    Mode(name="adapter, loss scaling", scaled=True),
)
MODES = tuple(
    dataclasses.replace(mode, packed=packed, name=f"{mode.name}{', packed' if packed else ''}")
    for mode in _PLAIN
    for packed in (False, True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """All that a trial has computed, nothing timed.

    Attributes:
        facts: Text that tells every bit apart, by window or by split and index.
        weights: SHA-256 of each file of weights, by its path.
    """

    facts: dict[object, str]
    weights: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has come of one mode."""

    times: int = 0
    kills: int = 0
    cuts: int = 0
    windows_read_again: int = 0
    overflows: int = 0
    unequal: list[str] = dataclasses.field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the checks that the command line asks for and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=100, help="trials that are asked to end")
    parser.add_argument("--kills", type=int, default=8, help="trials whose process is killed")
    parser.add_argument("--seed", type=int, default=0, help="of where they are interrupted")
    parser.add_argument("--carry-out", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.carry_out is not None:
        sweeper.training.scaling.make_scaler = _overflowing
        return carry_out_as_a_process([str(asked.carry_out)])
    logging.disable(logging.ERROR)
    disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="resume-check-") as root:
        tallies = Check(Path(root), seed=asked.seed).all(times=asked.times, kills=asked.kills)
    _print(tallies)
    return 1 if any(tally.unequal for tally in tallies.values()) else 0


class Check:
    """Trials in a folder of their own; of each mode the uninterrupted one is run once."""

    def __init__(self, root: Path, *, seed: int) -> None:
        self._root = root
        self._draw = random.Random(seed)  # noqa: S311  # no secret
        self._numbers = itertools.count(1)
        self._whole: dict[Mode, Computed] = {}
        _write_model(root / "model")
        _write_prepared(root / "prepared")

    def all(self, *, times: int, kills: int) -> dict[Mode, Tally]:
        """Interrupts `times` trials and kills `kills`, modes in turn."""
        tallies = {mode: Tally() for mode in MODES}
        for number in range(times):
            self._interrupt(MODES[number % len(MODES)], tallies)
            _tell(f"{number + 1} of {times} asked to end")
        for number in range(kills):
            self._kill(MODES[number % len(MODES)], tallies)
            _tell(f"{number + 1} of {kills} killed")
        return tallies

    def _interrupt(self, mode: Mode, tallies: dict[Mode, Tally]) -> None:
        spec = self._spec(mode)
        cuts = sorted(
            self._draw.sample(range(1, spec.planned.windows + 1), k=self._draw.choice((1, 2)))
        )
        folders = [self._attempt(mode, spec, until=cuts[0])]
        for cut, begin in zip([*cuts[1:], None], cuts, strict=True):
            until = None if cut is None else cut - begin
            folders.append(self._attempt(mode, _after(spec, folders[-1]), until=until))
        tallies[mode].times += 1
        tallies[mode].cuts += len(cuts)
        self._compare(mode, folders, tallies[mode], f"after windows {cuts}")

    def _kill(self, mode: Mode, tallies: dict[Mode, Tally]) -> None:
        spec = self._spec(mode)
        folder = self._folder(spec)
        windows = self._draw.randint(4, spec.planned.windows // 2)
        script = (
            [str(Path(__file__).resolve()), "--carry-out"]
            if mode.scaled
            else ["-m", "sweeper.trial"]
        )
        _kill_after(windows, folder, [sys.executable, *script, str(folder.path)])
        folders = [folder, self._attempt(mode, _after(spec, folder), until=None)]
        tallies[mode].kills += 1
        self._compare(mode, folders, tallies[mode], f"killed after {windows} windows or a few more")

    def _compare(self, mode: Mode, folders: list[AttemptFolder], tally: Tally, how: str) -> None:
        if mode not in self._whole:
            folder = self._attempt(mode, self._spec(mode), until=None)
            self._whole[mode] = _computed([folder])
        whole, found = self._whole[mode], _computed(folders)
        records = [record for folder in folders for record in _records(folder)]
        updates = [record for record in records if isinstance(record, Update)]
        tally.windows_read_again += len(updates) - len({update.window for update in updates})
        tally.overflows += sum(update.skip is Skip.SCALER_OVERFLOW for update in updates)
        resumed = sum(isinstance(record, Resumed) for record in records)
        if found != whole or resumed != len(folders) - 1 or not found.weights:
            tally.unequal.append(how)

    def _attempt(self, mode: Mode, spec: TrialSpec, *, until: int | None) -> AttemptFolder:
        """Carries an attempt out in this process; it ends after so many windows of its own."""
        folder = self._folder(spec)
        asked = itertools.count()  # 0 is asked after loading
        _scramble()
        former = sweeper.training.scaling.make_scaler
        if mode.scaled:
            sweeper.training.scaling.make_scaler = _overflowing
        try:
            run(folder, interrupted=lambda: next(asked) == until)
        finally:
            sweeper.training.scaling.make_scaler = former
        return folder

    def _folder(self, spec: TrialSpec) -> AttemptFolder:
        folder = AttemptFolder(self._root / f"attempt-{next(self._numbers)}")
        folder.path.mkdir()
        folder.spec.write_text(spec.to_json(), encoding="utf-8")
        return folder

    def _spec(self, mode: Mode) -> TrialSpec:
        prepared = self._root / "prepared"
        stream = plan_stream(
            PreparedSplit.open(prepared, "train"),
            seed=3,
            budget_target_tokens=BUDGET,
            records_per_update=4,
            max_epochs=BUDGET,
            row_tokens=ROWS.row_tokens if mode.packed else None,
        )
        return TrialSpec(
            study="resume check",
            fingerprint="0" * 64,
            cell="baseline/3",
            arm="baseline",
            seed=3,
            attempt=1,
            prepared=str(prepared),
            model=ModelOptions(path=str(self._root / "model")),
            tune="full" if mode.full else "lora",
            lora=None if mode.full else LoraOptions(rank=2, alpha=4, dropout=0.1),
            training=TrainingOptions(
                learning_rate=0.003,
                schedule=ScheduleOptions(kind="cosine", warmup=Warmup(fraction=0.1)),
                records_per_update=4,
                precision=mode.precision,
            ),
            packing=ROWS if mode.packed else None,
            budget_target_tokens=BUDGET,
            planned=planned_exposure(stream),
            evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=100)),
            stop=StopOptions(),
            micro_batch=2,
            keep_best=True,
            checkpoint=CheckpointOptions(every=CheckpointEvery(windows=3)),
        )


def _after(spec: TrialSpec, earlier: AttemptFolder) -> TrialSpec:
    return spec.model_copy(update={"attempt": 2, "resume_from": str(earlier.path)})


def _kill_after(windows: int, folder: AttemptFolder, argv: list[str]) -> None:
    give_up = time.monotonic() + GIVE_UP_SECONDS
    with folder.stderr.open("wb") as log, subprocess.Popen(argv, stderr=log) as process:
        try:
            while (
                not folder.events.exists()
                or folder.events.read_bytes().count(b'"update"') < windows
            ):
                time.sleep(0.01)
                assert process.poll() is None, folder.stderr.read_text("utf-8")
                assert time.monotonic() < give_up, "the trial did not get that far"
        finally:
            process.kill()
    outcomes = [line for line in folder.events.read_bytes().splitlines() if b'"outcome"' in line]
    assert not outcomes, "the trial ended before it was killed"


def _records(folder: AttemptFolder) -> Iterator[Record]:
    """Yields what an attempt reported; a kill may have cut its last line."""
    *lines, _cut = folder.events.read_bytes().split(b"\n")
    return (decode(line.decode()).record for line in lines)


def _computed(folders: list[AttemptFolder]) -> Computed:
    """Returns what the attempts have computed together; where they did so twice, the later."""
    facts: dict[object, str] = {}
    for record in itertools.chain.from_iterable(_records(folder) for folder in folders):
        match record:
            case Update():
                facts[record.window] = repr(
                    dataclasses.replace(record, seconds=0.0, peak_memory_bytes=0)
                )
            case Evaluation():
                place = (record.split, record.index)
                facts[place] = repr(dataclasses.replace(record, seconds=0.0))
    return Computed(facts=facts, weights=_weights(folders[-1]))


def _weights(folder: AttemptFolder) -> dict[str, str]:
    files = [file for kept in (folder.adapter, folder.best) for file in kept.rglob("*.safetensors")]
    return {
        str(file.relative_to(folder.path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def _overflowing(precision: ResolvedPrecision, device: torch.device) -> GradScaler:  # noqa: ARG001
    """Returns a scaler at a scale at which float32 overflows every few windows."""
    return GradScaler(device.type, init_scale=2.0**126, growth_interval=2)


def _scramble() -> None:
    random.seed()
    np.random.seed()  # noqa: NPY002  # the global one is meant
    torch.seed()


def _write_model(folder: Path) -> None:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        attention_dropout=0.1,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)


def _write_prepared(folder: Path) -> None:
    folder.mkdir()
    words = {f"w{number}": number for number in range(VOCABULARY)}
    model = Tokenizer(WordLevel(words, "w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model)
    tokenizer.save_pretrained(folder / "tokenizer")
    counts = {"train": 40, "validation": 12}
    for name, count in counts.items():
        write_split(folder / name, _encoded(name, count))
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


def _encoded(name: str, count: int) -> list[EncodedRecord]:
    """Returns records of 6 to 13 tokens, the first four of which are the prompt."""
    draw = np.random.default_rng(len(name))
    return [
        EncodedRecord(
            token_ids=draw.integers(1, VOCABULARY, size=length).tolist(),
            supervised=[position >= 4 for position in range(length)],
            digest=hashlib.sha256(f"{name} {number}".encode()).digest(),
        )
        for number, length in enumerate(draw.integers(6, 14, size=count).tolist())
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


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(tallies: dict[Mode, Tally]) -> None:
    head = ("mode", "asked to end", "killed", "interruptions", "read again", "overflows", "equal")
    form = "{:32}{:>13}{:>8}{:>15}{:>12}{:>11}{:>9}"
    print(form.format(*head))
    for mode, tally in tallies.items():
        runs = tally.times + tally.kills
        equal = f"{runs - len(tally.unequal)}/{runs}"
        row = (tally.times, tally.kills, tally.cuts + tally.kills, tally.windows_read_again)
        print(form.format(mode.name, *row, tally.overflows, equal))
        for how in tally.unequal:
            print(f"    not equal: {how}")


if __name__ == "__main__":
    sys.exit(main())
