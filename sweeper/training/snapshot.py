"""The whole state of a trial between two windows, as tensors and plain facts, and back.

Nothing else decides what comes next: trainable weights, the optimizer's moments, the scale of the
loss, the random states of Python, numpy, torch and the device on every rank, the ledger (which is
the cursor into the stream), what the stop conditions remember, an evaluation that is due, and the
best weights where they are kept. Rates, and the order of records, are functions of the counters.

What a snapshot belongs to (the study, the cell) is not known here.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from sweeper.training.best import Best, copied, load
from sweeper.training.exposure import Exposure
from sweeper.training.ranks import Ranks
from sweeper.training.trainable import Trainable
from sweeper.training.tried import Tried
from sweeper.training.watch import Watch

Fact = None | bool | int | float | str | list["Fact"] | dict[str, "Fact"]

_WEIGHTS = "weights/"
_BEST = "best/"
_OPTIMIZER = "optimizer/"


@dataclass(slots=True, kw_only=True)
class State:
    """What changes from window to window, in one place; the loop owns it.

    Attributes:
        exposure: After the last window.
        evaluation_due: Grid index of the evaluation that is to be made before the next window; at
            the start, the one before the first update.
        tried: The last window, for evidence; it is no part of a snapshot. None: none in this
            attempt.
    """

    tensors: Trainable
    optimizer: Optimizer
    scaler: GradScaler
    watch: Watch
    best: Best | None = None
    exposure: Exposure = dataclasses.field(default_factory=Exposure)
    evaluation_due: int | None = 0
    tried: Tried | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state outside of the process that it was taken in.

    Attributes:
        tensors: On the host, by a path of names; perhaps mapped from a file, so whoever goes on
            takes copies.
        facts: What JSON can say.
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Fact]

    @property
    def exposure(self) -> Exposure:
        """The ledger after the last window of the snapshot."""
        return Exposure(**self.facts["exposure"])  # type: ignore[arg-type]  # `take` wrote it

    @property
    def nonfinite_weights(self) -> tuple[str, ...]:
        """Names of the trainable tensors that hold a value which is not finite."""
        weights = _within(self.tensors, _WEIGHTS)
        return tuple(name for name, tensor in weights.items() if not tensor.isfinite().all())

    @property
    def ranks(self) -> int:
        """How many ranks the trial had."""
        states = self.facts["random"]
        assert isinstance(states, list)
        return len(states)

    @property
    def device_type(self) -> str:
        """On what kind of device it ran: `cpu` or `cuda`."""
        return str(self.facts["device"])


def gather_random_states(ranks: Ranks, device: torch.device) -> list[Fact]:
    """Returns the random states of every rank; all ranks have to call it."""
    states = json.dumps(random_states(device)).encode()
    return [json.loads(content) for content in ranks.gather(states)]


def take(state: State, randoms: list[Fact], device: torch.device) -> Snapshot:
    """Returns the state; only the rank that keeps it need ask, for it is a copy of everything.

    Args:
        randoms: What `gather_random_states` has returned.
    """
    moments, plain = _optimizer_state(state.optimizer)
    tensors = {_WEIGHTS + name: tensor for name, tensor in copied(state.tensors).items()}
    best = state.best or Best()
    tensors |= {_BEST + name: tensor for name, tensor in best.weights.items()}
    facts: dict[str, Fact] = {
        "exposure": dataclasses.asdict(state.exposure),
        "watch": {**state.watch.remembered()},
        "scaler": dict(state.scaler.state_dict()),
        "optimizer": plain,
        "best": {"loss": best.loss, "index": best.index},
        "evaluation_due": state.evaluation_due,
        "random": randoms,
        "device": device.type,
    }
    return Snapshot(tensors=tensors | moments, facts=facts)


def restore(snapshot: Snapshot, state: State, ranks: Ranks, device: torch.device) -> None:
    """Puts the state, which was freshly made, to where the snapshot was taken.

    Random states of ranks that the snapshot does not have, or of another kind of device, stay as
    they are: whoever goes on elsewhere knows that the numbers will be others.
    """
    load(_within(snapshot.tensors, _WEIGHTS), state.tensors)
    _load_optimizer(snapshot, state.optimizer)
    facts = snapshot.facts
    state.scaler.load_state_dict(facts["scaler"])  # type: ignore[arg-type]  # `take` wrote it
    state.watch.remember(facts["watch"])  # type: ignore[arg-type]
    state.exposure = snapshot.exposure
    state.evaluation_due = facts["evaluation_due"]  # type: ignore[assignment]
    best = facts["best"]
    assert isinstance(best, dict)
    if state.best is not None and best["loss"] is not None:
        weights = {name: t.clone() for name, t in _within(snapshot.tensors, _BEST).items()}
        state.best.put(best["loss"], best["index"], weights)  # type: ignore[arg-type]
    states = facts["random"]
    assert isinstance(states, list)
    if ranks.rank < len(states) and snapshot.device_type == device.type:
        set_random_states(states[ranks.rank], device)  # type: ignore[arg-type]


def random_states(device: torch.device) -> dict[str, Fact]:
    """Returns the states of Python's, numpy's and torch's generators, as JSON knows them."""
    version, internal, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002  # the global one is meant
    inner = numpy_state["state"]
    facts: dict[str, Fact] = {
        "python": [version, list(internal), gauss],
        "numpy": {
            "bit_generator": numpy_state["bit_generator"],
            "key": inner["key"].tolist(),
            "pos": int(inner["pos"]),
            "has_gauss": int(numpy_state["has_gauss"]),
            "gauss": float(numpy_state["gauss"]),
        },
        "torch": _encoded(torch.get_rng_state()),
    }
    if device.type == "cuda":
        facts["cuda"] = _encoded(torch.cuda.get_rng_state(device))
    return facts


def set_random_states(facts: dict[str, Fact], device: torch.device) -> None:
    """Puts the generators to where `random_states` found them."""
    python, of_numpy = facts["python"], facts["numpy"]
    assert isinstance(python, list)
    assert isinstance(of_numpy, dict)
    version, internal, gauss = python
    assert isinstance(internal, list)
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(  # noqa: NPY002  # the global one is meant
        {
            "bit_generator": of_numpy["bit_generator"],
            "state": {
                "key": np.array(of_numpy["key"], dtype=np.uint32),
                "pos": of_numpy["pos"],
            },
            "has_gauss": of_numpy["has_gauss"],
            "gauss": of_numpy["gauss"],
        }
    )
    torch.set_rng_state(_decoded(facts["torch"]))
    if device.type == "cuda":
        torch.cuda.set_rng_state(_decoded(facts["cuda"]), device)


def _optimizer_state(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Fact]]:
    """Returns the optimizer's tensors by `optimizer/<parameter>/<name>`, and the rest of it."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Fact] = {}
    for number, entries in optimizer.state_dict()["state"].items():
        others = {}
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMIZER}{number}/{name}"] = value.detach().to("cpu", copy=True)
            else:
                others[name] = value
        plain[str(number)] = others
    return tensors, plain


def _load_optimizer(snapshot: Snapshot, optimizer: Optimizer) -> None:
    """Loads moments and counts; settings and rates stay the optimizer's own."""
    plain = snapshot.facts["optimizer"]
    assert isinstance(plain, dict)
    state: dict[int, dict[str, object]] = {
        int(number): dict(others)  # type: ignore[arg-type]  # `_optimizer_state` wrote it
        for number, others in plain.items()
    }
    for path, tensor in _within(snapshot.tensors, _OPTIMIZER).items():
        number, _, name = path.partition("/")
        state[int(number)][name] = tensor.clone()
    own = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": own})


def _within(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _encoded(states: Tensor) -> str:
    return base64.b64encode(states.numpy().tobytes()).decode()


def _decoded(text: Fact) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(str(text))), dtype=torch.uint8)
