"""One rank of a fleet of test processes: takes scenarios by name, as JSON lines, and answers them.

A scenario is a function of the ranks and plain arguments to a plain result; with `ALONE` it runs in
the test's own process.
"""

import functools
import importlib.util
import itertools
import json
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

from sweeper.training.process_group import joined


@functools.cache
def build():
    """The builders of the tests of this folder; with them comes transformers, which takes long."""
    place = importlib.util.spec_from_file_location(
        "builders", Path(__file__).parent / "conftest.py"
    )
    module = importlib.util.module_from_spec(place)
    sys.modules["builders"] = module
    place.loader.exec_module(module)
    return module


# --- the process group itself -------------------------------------------------------------------


def add_up(ranks, *, dtype="float32", size=1000):
    torch.manual_seed(ranks.rank)
    tensor = torch.randn(size, dtype=getattr(torch, dtype))
    summed = ranks.sum(tensor)
    return {"in_place": summed is tensor, "values": summed.tolist()}


def add_up_places(ranks, *, values):
    """Each rank knows the values at its own places."""
    mine = [
        value if place % ranks.count == ranks.rank else 0.0 for place, value in enumerate(values)
    ]
    return ranks.sum(torch.tensor(mine, dtype=torch.float64)).tolist()


def any_of(ranks, *, flags):
    return ranks.any(flag=flags[ranks.rank])


def gather(ranks, *, contents):
    return [content.hex() for content in ranks.gather(bytes.fromhex(contents[ranks.rank]))]


def add_up_gradients(ranks, *, reached):
    """Each rank's gradients are its number, counted from 1, in the tensors that it has reached."""
    from sweeper.training.ranks import sum_gradients

    tensors = [torch.nn.Parameter(torch.zeros(2)) for _ in reached[ranks.rank]]
    for tensor, is_reached in zip(tensors, reached[ranks.rank], strict=True):
        tensor.grad = torch.full((2,), ranks.rank + 1.0) if is_reached else None
    sum_gradients(dict(enumerate(tensors)), ranks)
    return [None if tensor.grad is None else tensor.grad.tolist() for tensor in tensors]


def die(ranks, *, who):
    """The one leaves without a word; the others wait for it."""
    if ranks.rank == who:
        os._exit(9)
    return ranks.any(flag=False)


# --- windows whose loss is a sum of costs x w ---------------------------------------------------


class Costs:
    """An objective whose tokens each cost so much times a weight, which is 1: a linear loss.

    An infinite cost stands for a loss of zero whose gradient is not finite.
    """

    device = torch.device("cpu")

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, batch):
        finite = [cost * self.weights[place] for place, cost in batch if math.isfinite(cost)]
        steep = [torch.sqrt(self.weights[p] - 1) for p, cost in batch if not math.isfinite(cost)]
        return torch.stack([*finite, *steep, 0.0 * self.weights[0]]).sum()


def window_of_costs(ranks, *, micro_batches, apart=False):
    """Computes a window of micro-batches of token costs, and tries to make an update at rate 1.

    All tokens have one weight, or each one of its own (`apart`).
    """
    from sweeper.training.loop import _compute_gradients, _update
    from sweeper.training.optimizer import set_rate
    from sweeper.training.probe import NO_PROBE
    from sweeper.training.scaling import make_scaler
    from sweeper.training.snapshot import State
    from sweeper.training.stopping import StopOptions
    from sweeper.training.tried import Tried
    from sweeper.training.watch import Watch

    number = itertools.count()
    batches = [[(next(number) * apart, cost) for cost in batch] for batch in micro_batches]
    targets = sum(len(batch) for batch in batches)
    weight = torch.nn.Parameter(torch.ones(targets if apart else 1, dtype=torch.float64))
    state = State(
        tensors={"w": weight},
        optimizer=torch.optim.SGD([weight], lr=1.0),
        scaler=make_scaler("float64", Costs.device),
        watch=Watch(StopOptions()),
    )
    tried = Tried(window=SimpleNamespace(target_tokens=targets), batches=tuple(batches))
    tried.learning_rate = set_rate(state.optimizer, 1.0)
    _compute_gradients(tried, Costs(weight), state, ranks, NO_PROBE)
    gradient = weight.grad.tolist()
    _update(tried, state, clip_norm=None)
    return {
        "loss": tried.loss,
        "gradient": gradient,
        "skip": tried.skip,
        "weight": weight.detach().tolist(),
    }


def window_of_a_model(ranks, *, seed):
    """The difference of a window's gradient to that of the mean loss of all its tokens at once."""
    from sweeper.training.batch import make_batches
    from sweeper.training.loop import _compute_gradients
    from sweeper.training.loss import Objective
    from sweeper.training.probe import NO_PROBE
    from sweeper.training.scaling import make_scaler
    from sweeper.training.snapshot import State
    from sweeper.training.stopping import StopOptions
    from sweeper.training.trainable import trainable
    from sweeper.training.tried import Tried
    from sweeper.training.watch import Watch

    draw = torch.Generator().manual_seed(seed)
    count, micro_batch = (int(torch.randint(1, most, (), generator=draw)) for most in (12, 4))
    model = build().tiny_llama().double().train()
    (window,) = build().windows_of(build().random_examples(count, seed=seed), [count])
    objective = Objective(model, "float64")
    (whole,) = make_batches(window.examples, count, 0)
    (objective(whole) / window.target_tokens).backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    tensors = trainable(model)
    state = State(
        tensors=tensors,
        optimizer=torch.optim.SGD(tensors.values(), lr=1.0),
        scaler=make_scaler("float64", objective.device),
        watch=Watch(StopOptions()),
    )
    batches = tuple(make_batches(window.examples, micro_batch, 0))
    _compute_gradients(Tried(window=window, batches=batches), objective, state, ranks, NO_PROBE)
    found = torch.cat([p.grad.flatten() for p in model.parameters()])
    return float((found - expected).norm() / expected.norm())


# --- whole trials -------------------------------------------------------------------------------


def train(
    ranks,
    *,
    dtype="float64",
    sizes=(5, 4, 1, 2),
    micro_batch=1,
    ask=None,
    scale=None,
    folder=None,
    disturb=None,
):
    """Trains all of a tiny model by plain descent.

    Args:
        ask: (rank, window) that is asked to end.
        scale: Of the loss, if it is scaled.
        folder: For checkpoints after every window.
        disturb: (rank, window) whose weights are changed from outside.
    """
    from sweeper.training.keeper import Keeping
    from sweeper.training.options import SgdOptions
    from sweeper.training.trainable import digest, trainable

    b = build()
    model = b.tiny_llama().to(getattr(torch, dtype))
    windows = b.windows_of(b.random_examples(sum(sizes), seed=1), sizes)
    asked = itertools.count(1)
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    run = b.run(
        model,
        windows,
        options=b.training_options(0.1, optimizer=SgdOptions(kind="sgd", momentum=0.9)),
        held_out=[b.held_out(b.random_examples(7, seed=2))],
        micro_batch=micro_batch,
        ranks=ranks,
        interrupted=lambda: [ranks.rank, next(asked)] == ask,
        scaler=scaler,
        keeping=None if folder is None else Keeping(folder=Path(folder), every_windows=1),
        probe=Disturbance(model, ranks.rank, disturb),
    )
    return {
        "reason": run.outcome.reason,
        "detail": run.outcome.detail,
        "losses": run.losses,
        "norms": [update.gradient_norm for update in run.updates],
        "records": [update.record_digest for update in run.updates],
        "scales": [update.loss_scale for update in run.updates],
        "evaluations": [evaluation.loss for evaluation in run.evaluations],
        "weights": digest(trainable(model)),
    }


class Disturbance:
    """A probe that moves a weight of one rank in one window."""

    def __init__(self, model, rank, disturb):
        self._weight = next(model.parameters())
        self._rank = rank
        self._disturb = disturb

    def after_micro_batch(self, window, place, loss_sum):
        if [self._rank, window.index] == self._disturb:
            with torch.no_grad():
                self._weight.view(-1)[0] += 1e-6


def poisoned(ranks, *, tokens):
    """One window of records that cost by one token each; token 1 costs NaN, token 0 four nats."""
    b = build()
    table = b.table_with_losses([4.0, 1.0], dtype=torch.float32) / 10
    table[1] = 3e38
    model = b.Bigram(table, scale=10.0)
    windows = b.windows_of([b.costing(token) for token in tokens], [len(tokens)])
    run = b.run(model, windows, micro_batch=1, ranks=ranks)
    return {
        "reason": run.outcome.reason,
        "moved": not torch.equal(model.table, table),
        "skips": [update.skip for update in run.updates],
    }


def score(ranks, *, losses, tokens, micro_batch):
    """Returns the summed loss of each record, and the loss of the set."""
    from sweeper.training.evaluation import record_losses
    from sweeper.training.loss import Objective

    b = build()
    model = b.Bigram(b.table_with_losses(losses))
    held_out = b.held_out([b.costing(*each) for each in tokens])
    settings = {"micro_batch": micro_batch, "pad_token_id": 0}
    sums = record_losses(model, Objective(model, "float64"), held_out, ranks=ranks, **settings)
    run = b.run(
        model, b.windows_of([b.costing(0)], [1]), held_out=[held_out], micro_batch=1, ranks=ranks
    )
    return {"sums": sums.tolist(), "loss": [e.loss for e in run.evaluations][:1]}


def main():
    rank, count, meeting = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    answers = os.dup(1)
    os.dup2(2, 1)
    with joined(meeting, rank=rank, count=count, device=torch.device("cpu")) as ranks:
        for line in sys.stdin:
            question = json.loads(line)
            try:
                answer = {"result": globals()[question["scenario"]](ranks, **question["arguments"])}
            except Exception as error:  # noqa: BLE001 - told to the test
                answer = {"error": type(error).__name__, "message": str(error)}
            os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
