"""The token-weighted loss of held-out sets: sum of token losses / number of target tokens.

It does not depend on the batch size, as far as floating point allows, nor at all on the number of
ranks, and leaves no trace in training: the model's mode and all random states are restored.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sweeper.records import Evaluation, Phase, Stop
from sweeper.training.batch import make_batches
from sweeper.training.course import Course
from sweeper.training.determinism import preserved
from sweeper.training.exposure import Exposure
from sweeper.training.grid import Grid
from sweeper.training.keeper import Keeper
from sweeper.training.loss import Objective
from sweeper.training.per_record import write_per_record
from sweeper.training.ranks import ALONE, Ranks
from sweeper.training.trainable import nonfinite
from sweeper.training.window import HeldOutSet


class Examination:
    """Scores the held-out sets, when it is time to.

    Attributes:
        grid: When it is time.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, course: Course, keeper: Keeper
    ) -> None:
        self._model = model
        self._objective = objective
        self._course = course
        self._keeper = keeper
        self._state = keeper.state
        self.grid = Grid.of(course.evaluation, course.planned)

    def due(self, before: Exposure, after: Exposure) -> int | None:
        """Returns the index of the evaluation that belongs to the window just read, if any."""
        return self.grid.due(read_before=before.target_tokens_read, read=after.target_tokens_read)

    def at(self, index: int | None) -> Stop | None:
        """Scores every set, reports each, and returns the stop that this brings about, if any.

        Weights that are not finite are found before any set is scored. Without an index nothing
        is due.
        """
        if index is None:
            return None
        state, keeper = self._state, self._keeper
        keeper.phases.begin(Phase.EVALUATING)
        stop = state.watch.after_parameters(nonfinite(state.tensors))
        for held_out in self._course.held_out:
            if stop is not None:
                return stop
            evaluation = self._score(held_out, index)
            keeper.emit(evaluation)
            stop = state.watch.after_evaluation(evaluation)
            if state.best is not None:
                state.best.consider(evaluation, state.tensors)
        state.evaluation_due = None
        keeper.phases.begin(Phase.TRAINING)
        return stop

    def _score(self, held_out: HeldOutSet, index: int) -> Evaluation:
        course, exposure, clock = self._course, self._state.exposure, self._keeper.clock
        began = clock()
        loss_sums = record_losses(
            self._model,
            self._objective,
            held_out,
            micro_batch=course.micro_batch,
            pad_token_id=course.pad_token_id,
            ranks=self._keeper.ranks,
        )
        targets = _target_tokens(held_out)
        file, digest = self._written(held_out, index, loss_sums)
        return Evaluation(
            split=held_out.split,
            index=index,
            window=exposure.windows,
            target_tokens_read=exposure.target_tokens_read,
            updates=exposure.updates,
            loss=math.fsum(loss_sums) / targets,
            target_tokens=targets,
            records=len(held_out.examples),
            set_digest=held_out.set_digest,
            dtype=self._objective.precision,
            micro_batch=course.micro_batch,
            seconds=clock() - began,
            per_record_path=file,
            per_record_sha256=digest,
        )

    def _written(
        self, held_out: HeldOutSet, index: int, loss_sums: NDArray[np.float64]
    ) -> tuple[str | None, str | None]:
        folder = self._keeper.evaluations
        if folder is None:
            return None, None
        file = folder / f"{held_out.split}-{index:04d}.parquet"
        return f"{folder.name}/{file.name}", write_per_record(file, held_out, loss_sums)


def held_out_loss(
    model: nn.Module,
    objective: Objective,
    held_out: HeldOutSet,
    *,
    micro_batch: int,
    pad_token_id: int,
) -> tuple[float, int]:
    """Returns the loss in nats per target token over the whole set, and its target tokens."""
    loss_sums = record_losses(
        model, objective, held_out, micro_batch=micro_batch, pad_token_id=pad_token_id
    )
    targets = _target_tokens(held_out)
    return math.fsum(loss_sums) / targets, targets


def record_losses(  # what is scored, by what, in which batches, by whom
    model: nn.Module,
    objective: Objective,
    held_out: HeldOutSet,
    *,
    micro_batch: int,
    pad_token_id: int,
    ranks: Ranks = ALONE,
) -> NDArray[np.float64]:
    """Returns the summed token losses of each record in nats, `[records]`.

    Batches are dealt among the ranks in turn; each gets all the sums, the same bits as one rank.
    """
    examples = held_out.examples
    sums = np.zeros(len(examples))
    was_training = model.training
    model.eval()
    # no_grad, not inference_mode: buffers that a model fills here are used in training again
    with preserved(objective.device), torch.no_grad():
        for first in range(ranks.rank * micro_batch, len(examples), ranks.count * micro_batch):
            group = examples[first : first + micro_batch]
            for batch in make_batches(group, micro_batch, pad_token_id):
                losses_n = objective.token_losses(batch).cpu().numpy()
                rows = np.bincount(batch.rows_n.numpy(), losses_n, minlength=len(group))
                sums[first : first + len(group)] = rows
    model.train(was_training)
    # Adding the zeros of the ranks that did not score a record is exact.
    return ranks.sum(torch.from_numpy(sums).to(objective.device)).cpu().numpy()


def _target_tokens(held_out: HeldOutSet) -> int:
    return sum(example.target_tokens for example in held_out.examples)
