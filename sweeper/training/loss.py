"""The objective: the sum of token losses, computed at supervised positions only.

Most models are a body that ends in hidden states and a linear head over the vocabulary. Where that
is exactly so, the head runs on the supervised positions alone; the rest of the logits would be
thrown away. Whether it is so is tried out once (a model may also scale or cap its logits): body and
head must give the very bits that the whole model gives. Where they do not, the whole model runs,
which costs time and memory but not exactness.

Axes: b records, t tokens, n supervised positions, v vocabulary, h hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweeper.training.batch import Batch
from sweeper.training.precision import ResolvedPrecision, autocast

_PROBE_TOKENS = 4


def token_losses(logits_nv: Tensor, targets_n: Tensor) -> Tensor:
    """Returns each target's cross entropy in nats `[n]`, in float32 or, for float64, in float64."""
    wide = logits_nv if logits_nv.dtype == torch.float64 else logits_nv.float()
    return nn.functional.cross_entropy(wide, targets_n, reduction="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A causal model as a body that ends in hidden states and a head over the vocabulary."""

    body: nn.Module
    head: nn.Module


class Objective:
    """The sum of token losses of a batch, for one model in one precision.

    Attributes:
        model: The model; its trainable tensors are what the gradient reaches.
        device: Where the model is.
        split: How the model is taken apart; None where the whole of it has to run.
    """

    def __init__(self, model: nn.Module, precision: ResolvedPrecision) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.precision = precision
        self.split = find_split(model, precision)

    def __call__(self, batch: Batch) -> Tensor:
        """Returns the sum of token losses as a float64 scalar; its gradient reaches the model.

        Token losses are summed in float64, so that the sum of many is as exact as each.
        """
        return self.token_losses(batch).sum()

    def token_losses(self, batch: Batch) -> Tensor:
        """Returns the loss of each target of the batch, in its order, as float64 `[n]`."""
        batch = batch.to(self.device)
        return token_losses(self.logits(batch), batch.targets_n).double()

    def logits(self, batch: Batch) -> Tensor:
        """Returns what each target of the batch is predicted from, `[n, v]`."""
        batch = batch.to(self.device)
        with self._autocast():
            return self._supervised_logits(batch)

    def _supervised_logits(self, batch: Batch) -> Tensor:
        at = batch.rows_n, batch.columns_n
        if self.split is None:
            return _logits(self.model, _inputs(batch))[at]
        hidden_bth = _hidden(self.split.body, _inputs(batch))
        logits_nv: Tensor = self.split.head(hidden_bth[at])
        return logits_nv

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self.precision, self.device)


def find_split(model: nn.Module, precision: ResolvedPrecision) -> Split | None:
    """Returns body and head if together they are the model, to the bit; else None.

    Leaves the model's mode and all random states as they were.
    """
    split = _candidate(model)
    if split is None:
        return None
    device = next(model.parameters()).device
    token_ids_bt = torch.arange(_PROBE_TOKENS, device=device)[None] % _vocabulary(split.head)
    inputs = {"input_ids": token_ids_bt, "attention_mask": torch.ones_like(token_ids_bt)}
    was_training = model.training
    model.eval()
    with torch.no_grad(), autocast(precision, device):
        expected = _logits(model, inputs)
        found = split.head(_hidden(split.body, inputs))
    model.train(was_training)
    return split if torch.equal(expected, found) else None


def without_wrapper(model: nn.Module) -> nn.Module:
    """Returns the model inside an adapter's wrapper; the model itself where there is none."""
    unwrap = getattr(model, "get_base_model", None)
    inner: nn.Module = model if unwrap is None else unwrap()
    return inner


def _candidate(model: nn.Module) -> Split | None:
    """Takes the model apart the way transformers names the parts."""
    causal = without_wrapper(model)
    body = getattr(causal, "base_model", None)
    find_head = getattr(causal, "get_output_embeddings", None)
    head = None if find_head is None else find_head()
    if body is None or head is None or body is causal:
        return None
    return Split(body=body, head=head)


def _vocabulary(head: nn.Module) -> int:
    weight = head.weight
    assert isinstance(weight, Tensor)
    return len(weight)


def _inputs(batch: Batch) -> dict[str, Tensor]:
    """Returns what the forward pass is given: a mask or, packed, positions and no mask at all.

    A mask of ones along with the positions would let documents see each other.
    """
    if batch.positions_bt is not None:
        return {"input_ids": batch.token_ids_bt, "position_ids": batch.positions_bt}
    assert batch.present_bt is not None, "a batch has a mask or positions"
    return {"input_ids": batch.token_ids_bt, "attention_mask": batch.present_bt}


def _hidden(body: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    output = body(**inputs, use_cache=False)
    hidden_bth: Tensor = output.last_hidden_state
    return hidden_bth


def _logits(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    # a cache, were it empty, would undo the separation of packed documents
    output = model(**inputs, use_cache=False)
    logits_btv: Tensor = output.logits
    return logits_btv
