"""The gradient of a window does not depend on how it is cut: into rows, micro-batches, or ranks.

Whatever is drawn, the loop's gradient is compared with one worked in float64 record by record,
without a batch, without padding and without any code of ours: the sum of token losses over the
window's target tokens. Ranks are threads here, each with a model of its own; processes stand in
test_ranks.py.
"""

import copy
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook

from sweeper.training.options import SgdOptions
from sweeper.training.ranks import ALONE

VOCABULARY = 8


class Meeting:
    """A rank among threads: what all have given is added up in the order of ranks."""

    def __init__(self, rank, given, barrier):
        self.rank = rank
        self.count = len(given)
        self._given = given
        self._barrier = barrier

    def sum(self, tensor):
        self._given[self.rank] = tensor.clone()
        self._barrier.wait()
        total = torch.stack(self._given).sum(0)
        self._barrier.wait()
        return tensor.copy_(total)

    def any(self, *, flag):
        return bool(self.sum(torch.tensor(int(flag))))

    def gather(self, content):
        self._given[self.rank] = content
        self._barrier.wait()
        contents = list(self._given)
        self._barrier.wait()
        return contents


def on_ranks(count, work):
    """Returns what `work` gives on each of so many ranks."""
    if count == 1:
        return [work(ALONE)]
    given, barrier = [None] * count, threading.Barrier(count, timeout=60)

    def attend(rank):
        try:
            return work(Meeting(rank, given, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(attend, range(count)))


@dataclass(frozen=True)
class Cut:
    """A window and how it is divided."""

    records: tuple  # of (token ids, positions of targets)
    micro_batch: int
    ranks: int
    row: int = 1  # records in a packed row; 1: no packing

    @property
    def targets(self):
        return sum(len(targets) for _, targets in self.records)


@st.composite
def cuts(draw):
    """One to eight records of two to nine tokens, each with any of its tokens but the first as
    targets, perhaps none; up to three ranks, more than there are micro-batches among them."""
    records = []
    for _ in range(draw(st.integers(1, 8))):
        length = draw(st.integers(2, 9))
        token = st.integers(0, VOCABULARY - 1)
        tokens = draw(st.lists(token, min_size=length, max_size=length))
        targets = draw(st.sets(st.integers(1, length - 1)))
        records.append((tokens, sorted(targets)))
    cut = Cut(tuple(records), draw(st.integers(1, 8)), draw(st.integers(1, 3)))
    assume(cut.targets > 0)
    return cut


def reference(logits_of, parameters, cut):
    """Returns loss and gradient, worked record by record; `logits_of` takes one record's tokens."""
    total = 0.0
    for tokens, targets in cut.records:
        ids = torch.tensor(tokens)
        before = [position - 1 for position in targets]
        total = total + functional.cross_entropy(
            logits_of(ids)[before], ids[targets], reduction="sum"
        )
    loss = total / cut.targets
    return loss.item(), torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


@pytest.fixture(scope="module")
def looped(build):
    """Returns loss and gradient as the loop makes them, on each rank."""

    def run(model, cut):
        examples = [build.example(tokens, targets=targets) for tokens, targets in cut.records]
        (window,) = build.windows_of(examples, [len(examples)])
        if cut.row > 1:
            starts = range(0, len(examples), cut.row)
            rows = [build.packed(*examples[start : start + cut.row]) for start in starts]
            window = dataclasses.replace(window, examples=rows)
        options = build.training_options(1e-9, optimizer=SgdOptions(kind="sgd"))
        caught = {}

        def catch(optimizer, _arguments, _names):
            parts = [p.grad.flatten().clone() for g in optimizer.param_groups for p in g["params"]]
            caught[threading.get_ident()] = torch.cat(parts)

        def work(ranks):
            made = build.run(
                copy.deepcopy(model),
                [window],
                options=options,
                micro_batch=cut.micro_batch,
                ranks=ranks,
            )
            return made.losses, caught.pop(threading.get_ident())

        handle = register_optimizer_step_pre_hook(catch)
        try:
            found = on_ranks(cut.ranks, work)
        finally:
            handle.remove()
        (loss,) = found[0][0]
        return loss, [gradient for _, gradient in found]

    return run


@pytest.fixture(scope="module")
def llama(build):
    """A language model in float64; matrices only, so that the optimizer has them in order."""
    model = build.tiny_llama(
        vocab_size=VOCABULARY, hidden_size=8, intermediate_size=8, num_hidden_layers=1
    ).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("norm" not in name)
    return model


UNHURRIED = settings(
    max_examples=settings().max_examples * 3 // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)


@UNHURRIED
@given(cut=cuts(), row=st.integers(1, 3))
def test_in_float64_it_is_the_gradient_of_the_whole_window_to_1e_10(cut, row, llama, looped):
    cut = dataclasses.replace(cut, row=row)
    model = copy.deepcopy(llama)
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected_loss, expected = reference(
        lambda ids: model(input_ids=ids[None], use_cache=False).logits[0], parameters, cut
    )
    loss, gradients = looped(llama, cut)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    for gradient in gradients:
        assert (gradient - expected).norm() <= 1e-10 * expected.norm()
        assert torch.equal(gradient, gradients[0])


@UNHURRIED
@given(cut=cuts(), seed=st.integers(0, 1000))
def test_in_float32_it_is_so_within_what_rounding_explains(cut, seed, build, looped):
    """A table of logits between -2 and 2, V wide. An element's gradient is a sum over at most n
    targets of terms p - [hit], over n, each below 1 / n in size. In a term the difference to the
    largest logit is rounded once and, being at most 4, changes its exponential by 4 roundings; V
    exponentials are added, divided by, and the loss is scaled and cast: V + 12 roundings are more
    than enough. The terms are added up, within micro-batches, over them and over ranks: at most
    2 n + 3 times. Each rounding is of 2**-24 of at most n x 1 / n = 1."""
    table = np.random.default_rng(seed).uniform(-2, 2, size=(VOCABULARY, VOCABULARY))
    model = build.Bigram(torch.tensor(table, dtype=torch.float32))
    exact = model.table.detach().double().requires_grad_()
    expected_loss, expected = reference(lambda ids: exact[ids], [exact], cut)
    loss, gradients = looped(model, cut)
    roundings = (VOCABULARY + 12) + (2 * cut.targets + 3)
    assert (gradients[0].double() - expected).abs().max() <= roundings * 2**-24
    # a token costs at most 4 + ln 8, which is below 8
    assert loss == pytest.approx(expected_loss, abs=(VOCABULARY + 12) * 2**-24 * 8)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)
