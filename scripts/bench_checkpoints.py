"""How long a checkpoint of primer-1m takes to write, and how large it is; bench_loop.py runs this.

python scripts/bench_checkpoints.py FOLDER COUNT      one line of JSON per kind of tuning
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from bench_work import LORA
from transformers import PreTrainedModel

from sweeper.records import CheckpointMade, Record
from sweeper.training.adapter import AdaptedModel, adapt, unfreeze
from sweeper.training.exposure import Exposure
from sweeper.training.keeper import Keeper, Keeping
from sweeper.training.model import load_model
from sweeper.training.optimizer import make_optimizer
from sweeper.training.options import AdamWOptions, ModelOptions
from sweeper.training.phases import Phases
from sweeper.training.ranks import ALONE
from sweeper.training.scaling import make_scaler
from sweeper.training.snapshot import State
from sweeper.training.stopping import StopOptions
from sweeper.training.watch import Watch

MODEL = Path(__file__).resolve().parents[1] / "studies/models/primer-1m"
CPU = torch.device("cpu")


def state_after_one_update(adapted: AdaptedModel) -> State:
    """Returns a state in which the optimizer has its moments."""
    optimizer = make_optimizer(adapted.tensors, AdamWOptions(kind="adamw"))
    for parameter in adapted.tensors.values():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return State(
        tensors=adapted.tensors,
        optimizer=optimizer,
        scaler=make_scaler("float32", CPU),
        watch=Watch(StopOptions()),
    )


def measure(state: State, folder: Path, count: int) -> dict[str, object]:
    """Takes and writes `count` checkpoints as a trial does, each brought to the disk."""
    records: list[Record] = []
    keeping = Keeping(folder=folder, every_windows=1)
    phases = Phases(records.append, time.monotonic)
    keeper = Keeper(keeping, state, ALONE, phases=phases, emit=records.append, clock=time.monotonic)
    cpu, wall = [], []
    for window in range(1, count + 1):
        state.exposure = Exposure(windows=window)
        began = time.process_time(), time.perf_counter()
        keeper.save()
        cpu.append(time.process_time() - began[0])
        wall.append(time.perf_counter() - began[1])
    sizes = [record.size_bytes for record in records if isinstance(record, CheckpointMade)]
    return {"cpu_seconds": cpu, "wall_seconds": wall, "size_bytes": sizes[-1]}


def load() -> PreTrainedModel:
    """Returns the committed base model."""
    return load_model(ModelOptions(path=str(MODEL), dtype="float32"), device=CPU)


def main() -> None:
    """Measures an adapter and full tuning."""
    root, count = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    for name, adapted in (("adapter", adapt(load(), LORA, seed=1)), ("full", unfreeze(load()))):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=root) as folder:
            found = measure(state_after_one_update(adapted), Path(folder), count)
        print(json.dumps({"tune": name} | found), flush=True)


if __name__ == "__main__":
    main()
