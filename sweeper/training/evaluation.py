"""The token-weighted loss of held-out sets: sum of token losses / number of target tokens.

It does not depend on the batch size, as far as floating point allows, and leaves no trace in
training: the model's mode and all random states are restored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from sweeper.records import Evaluation, Phase, PhaseBegun, Record, Stop
from sweeper.training.batch import make_batches
from sweeper.training.determinism import preserved
from sweeper.training.exposure import Exposure
from sweeper.training.grid import Grid
from sweeper.training.loss import Objective
from sweeper.training.trainable import Trainable, nonfinite
from sweeper.training.watch import Watch
from sweeper.training.window import HeldOutSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All that an evaluation point needs, bound once.

    Attributes:
        held_out: The sets to score, validation first.
        grid: When to score them.
        micro_batch: Records per forward pass.
        clock: Monotonic seconds.
    """

    model: nn.Module
    objective: Objective
    tensors: Trainable
    held_out: Sequence[HeldOutSet]
    grid: Grid
    micro_batch: int
    pad_token_id: int
    watch: Watch
    emit: Callable[[Record], None]
    clock: Callable[[], float]

    def at_start(self) -> Stop | None:
        """Makes the evaluation before the first update."""
        return self._at(0, Exposure())

    def when_due(self, before: Exposure, after: Exposure) -> Stop | None:
        """Makes the evaluation that belongs to the window just read, if the grid has one."""
        index = self.grid.due(read_before=before.target_tokens_read, read=after.target_tokens_read)
        return None if index is None else self._at(index, after)

    def at_end(self, exposure: Exposure) -> Stop | None:
        """Makes the evaluation after the last window."""
        return self._at(self.grid.last, exposure)

    def _at(self, index: int, exposure: Exposure) -> Stop | None:
        """Scores every set, reports each, and returns the stop that this brings about, if any.

        Weights that are not finite are found before any set is scored.
        """
        self.emit(PhaseBegun(phase=Phase.EVALUATING))
        stop = self.watch.after_parameters(nonfinite(self.tensors))
        for held_out in self.held_out:
            if stop is not None:
                return stop
            evaluation = self._score(held_out, index, exposure)
            self.emit(evaluation)
            stop = self.watch.after_evaluation(evaluation)
        self.emit(PhaseBegun(phase=Phase.TRAINING))
        return stop

    def _score(self, held_out: HeldOutSet, index: int, exposure: Exposure) -> Evaluation:
        began = self.clock()
        loss, targets = held_out_loss(
            self.model,
            self.objective,
            held_out,
            micro_batch=self.micro_batch,
            pad_token_id=self.pad_token_id,
        )
        return Evaluation(
            split=held_out.split,
            index=index,
            target_tokens_read=exposure.target_tokens_read,
            updates=exposure.updates,
            loss=loss,
            target_tokens=targets,
            records=len(held_out.examples),
            set_digest=held_out.set_digest,
            dtype=self.objective.precision,
            micro_batch=self.micro_batch,
            seconds=self.clock() - began,
        )


def held_out_loss(
    model: nn.Module,
    objective: Objective,
    held_out: HeldOutSet,
    *,
    micro_batch: int,
    pad_token_id: int,
) -> tuple[float, int]:
    """Returns the loss in nats per target token over the whole set, and its target tokens."""
    batches = make_batches(held_out.examples, micro_batch, pad_token_id)
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    # no_grad, not inference_mode: buffers that a model fills here are used in training again
    with preserved(device), torch.no_grad():
        scored = [(objective(batch), batch.target_tokens) for batch in batches]
        sums = torch.stack([loss_sum for loss_sum, _ in scored]).tolist()
    model.train(was_training)
    targets = sum(target_tokens for _, target_tokens in scored)
    return math.fsum(sums) / targets, targets
