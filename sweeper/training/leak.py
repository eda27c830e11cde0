"""Whether packed documents are kept apart: proved on the model itself, before its first update.

Nothing tells a model that reads across the border of two documents: its losses look plausible. So
the inputs of a packed batch are tried out on the model as it will be used, in its precision and
with its attention. A document's logits must be the very same whatever stands before it in the row,
and its loss must be, but for rounding, what it is without packing.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedConfig

from sweeper.errors import Fault, ModelError
from sweeper.training.batch import make_batches
from sweeper.training.determinism import preserved
from sweeper.training.loss import Objective, token_losses, without_wrapper
from sweeper.training.window import Document, Example

PROVEN_ATTENTION = ("eager", "sdpa", "flex_attention", "flash_attention_2")
"""Back-ends that read the borders of documents off the positions."""

_WHERE = "data.packing"
_HINT = "Leave out data.packing."
_FIRST_TOKENS, _SECOND_TOKENS = 6, 5
_FEWEST_TOKEN_IDS = 2

_TOLERANCE: Mapping[str, float] = MappingProxyType(
    {"float64": 1e-9, "float32": 1e-3, "bfloat16": 5e-2, "float16": 5e-2}
)
"""Relative difference of a loss that other shapes of the same sums account for."""


def refuse_unpackable(model: nn.Module) -> None:
    """Refuses a model for which packing is not proven, as far as it shows without weights.

    Raises:
        ModelError: Its attention back-end is not one of those above, or it takes no positions.
    """
    faults = []
    if (attention := _attention(model)) not in PROVEN_ATTENTION:
        faults.append(
            Fault(
                what="packed documents are not known to be kept apart by this attention back-end",
                where=_WHERE,
                got=f"attention {attention}",
                expected=f"one of {', '.join(PROVEN_ATTENTION)}",
                hint="Leave out data.packing, or set model.attention to sdpa.",
            )
        )
    if not _takes_positions(model):
        faults.append(
            Fault(
                what="the model takes no position_ids, so it cannot tell packed documents apart",
                where=_WHERE,
                got=type(without_wrapper(model)).__name__,
                hint=_HINT,
            )
        )
    if faults:
        raise ModelError(*faults)


def refuse_leak(objective: Objective) -> None:
    """Refuses a model in which packed documents see each other; call it before the first batch.

    The model's mode and all random states stay as they are. A model with logits that are not
    finite passes: its first evaluation is what ends the trial.

    Raises:
        ModelError: Packing is not proven for the model, or it leaks, or it changes a loss.
    """
    refuse_unpackable(objective.model)
    first, other, second = _token_ids(objective.model)
    with _undisturbed(objective):
        together = _second_logits(objective, first, second)
        changed = _second_logits(objective, other, second)
        packed = _loss(together, second)
        alone = float(objective(next(make_batches([_example(second)], 1, 0))))
    if not bool(torch.isfinite(together).all()):
        return
    attention = _attention(objective.model)
    if not torch.equal(together, changed):
        leak = float((together - changed).abs().max())
        raise ModelError(_leaks(f"a difference of {leak:.3g} with attention {attention}"))
    if abs(packed - alone) > _TOLERANCE[objective.precision] * abs(alone):
        got = f"{packed:.6g} nats packed and {alone:.6g} alone, with attention {attention}"
        raise ModelError(_costs_more(got))


def _leaks(got: str) -> Fault:
    return Fault(
        what="packed documents see each other: the logits of one change with the one before it",
        where=_WHERE,
        got=got,
        expected="exactly the same logits",
        hint=_HINT,
    )


def _costs_more(got: str) -> Fault:
    return Fault(
        what="a document costs another loss when it is packed",
        where=_WHERE,
        got=got,
        expected="the same but for rounding",
        hint=_HINT,
    )


def _attention(model: nn.Module) -> str | None:
    attention: str | None = getattr(_text_config(model), "_attn_implementation", None)
    return attention


def _text_config(model: nn.Module) -> object:
    config = getattr(without_wrapper(model), "config", None)
    return config.get_text_config() if isinstance(config, PreTrainedConfig) else None


def _takes_positions(model: nn.Module) -> bool:
    causal = without_wrapper(model)
    body = getattr(causal, "base_model", causal)
    forwards = (causal.forward, body.forward)
    return all("position_ids" in inspect.signature(forward).parameters for forward in forwards)


def _token_ids(model: nn.Module) -> tuple[NDArray[np.int32], ...]:
    """Returns two documents for the first place, unequal in every token, and one for the second."""
    vocabulary: int = getattr(_text_config(model), "vocab_size", _FEWEST_TOKEN_IDS)
    tokens = np.arange(_FIRST_TOKENS + _SECOND_TOKENS, dtype=np.int32) % vocabulary
    first, second = tokens[:_FIRST_TOKENS], tokens[_FIRST_TOKENS:]
    return first, (first + vocabulary // 2) % vocabulary, second


def _example(*documents: NDArray[np.int32], is_packed: bool = False) -> Example:
    supervised = [np.arange(len(document)) > 0 for document in documents]
    return Example(
        token_ids=np.concatenate(documents),
        supervised=np.concatenate(supervised),
        documents=tuple(
            Document(record=place, digest="", group="", tokens=len(document))
            for place, document in enumerate(documents)
        ),
        is_packed=is_packed,
    )


def _second_logits(
    objective: Objective, first: NDArray[np.int32], second: NDArray[np.int32]
) -> Tensor:
    batch = next(make_batches([_example(first, second, is_packed=True)], 1, 0))
    return objective.logits(batch)[-(len(second) - 1) :]


def _loss(logits_nv: Tensor, second: NDArray[np.int32]) -> float:
    targets_n = torch.from_numpy(second[1:].astype(np.int64)).to(logits_nv.device)
    return float(token_losses(logits_nv, targets_n).double().sum())


@contextlib.contextmanager
def _undisturbed(objective: Objective) -> Iterator[None]:
    """Runs its body in evaluation mode and without a trace."""
    modes = [(module, module.training) for module in objective.model.modules()]
    objective.model.eval()
    try:
        # no_grad, not inference_mode: buffers that a model fills here are used in training again
        with preserved(objective.device), torch.no_grad():
            yield
    finally:
        for module, was_training in modes:
            module.training = was_training
