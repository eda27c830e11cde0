"""The probe of a replay: where within a window something first stops being finite.

It looks at every module's output in training and at every gradient after each micro-batch, and
changes nothing: the numbers are those of a run without it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweeper.training.trainable import Trainable, nonfinite
from sweeper.training.window import Example, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The first place within a window where something was not finite.

    Attributes:
        micro_batch: From 1; None: everything was finite until the update.
        examples: Those of the micro-batch.
        is_loss: Whether its loss was not finite.
        module: The first module, in the order of computation, whose output was not.
        gradient: The first trainable tensor, in the model's order, with such a gradient.
        weight: The first one that holds such a value itself.
    """

    window: int
    micro_batch: int | None
    examples: Sequence[Example] = ()
    is_loss: bool = False
    module: str | None = None
    gradient: str | None = None
    weight: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steepness:
    """What stands out in a window.

    Attributes:
        micro_batch: The one with the highest loss per target token.
        examples: Those of it.
        loss: Of it, in nats per target token.
        tensor: The trainable tensor with the largest gradient.
        share: Of the squared norm of all gradients, loss scaling or not.
    """

    window: int
    micro_batch: int
    examples: Sequence[Example]
    loss: float
    tensor: str
    share: float


class Microscope:
    """Looks on while a model is trained; implements `probe.Probe`.

    Args:
        model: Its modules are watched from now on.
        tensors: The trainable tensors.
        micro_batch: Examples per forward pass.

    Attributes:
        sightings: At most one a window, in order.
    """

    def __init__(self, model: nn.Module, tensors: Trainable, *, micro_batch: int) -> None:
        self.sightings: list[Sighting] = []
        self._tensors = tensors
        self._micro_batch = micro_batch
        self._module: str | None = None
        self._window = 0
        self._losses: dict[int, float] = {}
        self._batches: list[Sequence[Example]] = []
        for name, module in model.named_modules():
            module.register_forward_hook(self._watch(name or type(module).__name__))

    def after_micro_batch(self, window: Window, place: int, loss_sum: Tensor) -> None:
        """Looks at the loss, the modules' outputs, the gradients added so far and the weights."""
        if window.index != self._window:
            self._begin(window)
        examples = self._batches[place - 1]
        loss, module = float(loss_sum), self._module
        self._losses[place] = loss / sum(example.target_tokens for example in examples)
        self._module = None
        gradient = _first_nonfinite_gradient(self._tensors)
        if self._has_seen(window.index) or (math.isfinite(loss) and not (module or gradient)):
            return
        self.sightings.append(
            Sighting(
                window=window.index,
                micro_batch=place,
                examples=examples,
                is_loss=not math.isfinite(loss),
                module=module,
                gradient=gradient,
                weight=next(iter(nonfinite(self._tensors)), None),
            )
        )

    def after_update(self, window: int) -> None:
        """Looks at the weights as the window has left them."""
        weight = next(iter(nonfinite(self._tensors)), None)
        if weight is not None and not self._has_seen(window):
            self.sightings.append(Sighting(window=window, micro_batch=None, weight=weight))

    def steepest(self) -> Steepness | None:
        """Returns what stands out in the last window whose gradients are still there, if any."""
        squares = _squared_norms(self._tensors)
        total = math.fsum(squares.values())
        if not self._losses or total == 0:
            return None
        place = max(self._losses, key=lambda place: _order(self._losses[place]))
        tensor = max(squares, key=lambda name: _order(squares[name]))
        return Steepness(
            window=self._window,
            micro_batch=place,
            examples=self._batches[place - 1],
            loss=self._losses[place],
            tensor=tensor,
            share=squares[tensor] / total,
        )

    def _begin(self, window: Window) -> None:
        self._window, self._losses = window.index, {}
        self._batches = list(_with_targets(window.examples, self._micro_batch))

    def _has_seen(self, window: int) -> bool:
        return bool(self.sightings) and self.sightings[-1].window == window

    def _watch(self, name: str) -> _Hook:
        return _Hook(self, name)

    def saw(self, name: str, output: object) -> None:
        """Takes note of a module's output in training; evaluations compute no gradients."""
        if self._module is not None or not torch.is_grad_enabled():
            return
        if any(not bool(tensor.isfinite().all()) for tensor in _tensors_in(output)):
            self._module = name


@dataclass(frozen=True, slots=True)
class _Hook:
    """Tells the microscope of one module's output."""

    microscope: Microscope
    name: str

    def __call__(self, _module: nn.Module, _inputs: object, output: object) -> None:
        self.microscope.saw(self.name, output)


def _with_targets(examples: Sequence[Example], micro_batch: int) -> Iterator[Sequence[Example]]:
    """Yields the examples of each micro-batch as `batch.make_batches` makes them."""
    unread = iter(examples)
    while group := list(itertools.islice(unread, micro_batch)):
        if any(example.target_tokens for example in group):
            yield group


def _first_nonfinite_gradient(tensors: Trainable) -> str | None:
    names = [name for name, p in tensors.items() if p.grad is not None]
    if not names:
        return None
    gradients = (tensors[name].grad for name in names)
    finite = torch.stack([g.isfinite().all() for g in gradients if g is not None]).tolist()
    return next((name for name, ok in zip(names, finite, strict=True) if not ok), None)


def _squared_norms(tensors: Trainable) -> dict[str, float]:
    """Returns them in float64, in which the squares of float32 do not overflow."""
    return {
        name: float(p.grad.double().square().sum())
        for name, p in tensors.items()
        if p.grad is not None
    }


def _order(value: float) -> float:
    """Puts what is not a number above everything else."""
    return math.inf if math.isnan(value) else value


def _tensors_in(output: object) -> Iterable[Tensor]:
    """Returns the floating-point tensors of what a module returns, however they are nested."""
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        return itertools.chain.from_iterable(_tensors_in(entry) for entry in output.values())
    if isinstance(output, list | tuple):
        return itertools.chain.from_iterable(_tensors_in(entry) for entry in output)
    return []
